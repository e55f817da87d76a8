import type { Backend } from '../../contracts/model/backend.js'
import { CllmError } from '../../errors/cllm-error.js'
import { type ProposerDefinition, defineProposer } from '../../contracts/plugin.js'
import type { Proposer } from '../../contracts/model/drawing.js'
import { checkMade } from '../../plugin/checks.js'
import { Definitions } from '../../plugin/definitions.js'
import { ngramProposer } from './ngram-proposer.js'
import { token } from '../../tokens.js'

/** What `EngineOptions.speculative` is where a draft model guesses. */
export const draftModelName = 'draft'

/** The draft model of an engine, if it has one. */
export interface DraftBackend {
  readonly backend?: Backend
}

/** The {@link DraftBackend}: the draft model, if there is one. */
export const DRAFT_BACKEND = token<DraftBackend>('DraftBackend')

/** llama.cpp's own limit of how much two vocabularies may differ in length (`SPEC_VOCAB_MAX_SIZE_DIFFERENCE`). */
const mostExtraTokens = 128
/** Tokens whose texts are compared, evenly spread. */
const comparedTokens = 1000

/**
 * Checks that a model can guess for another one: that it takes tokens back, and that its vocabulary is
 * the same, up to a few tokens at the end.
 *
 * @throws `invalid_configuration` that says what differs
 */
export function checkDraftBackend(draft: Backend, served: Backend): void {
  const [its, own] = [draft.model, served.model]
  const fail = (reason: string) => {
    const message = `speculative: ${its.id} cannot guess for ${own.id}: ${reason}`
    throw new CllmError('invalid_configuration', message, { details: { field: 'speculative' } })
  }
  if (draft.capabilities.drafts !== true) fail('its memory cannot take back single tokens')
  const [least, most] = [its.vocabularySize, own.vocabularySize].toSorted((a, b) => a - b)
  if (most! - least! > mostExtraTokens) {
    fail(`its vocabulary has ${its.vocabularySize} tokens, expected about ${own.vocabularySize}`)
  }
  const step = Math.max(1, Math.floor(least! / comparedTokens))
  for (let token = 0; token < least!; token += step) {
    const [guessed, expected] = [textOf(draft, token), textOf(served, token)]
    if (guessed !== expected) {
      fail(`token ${token} is ${JSON.stringify(guessed)}, expected ${JSON.stringify(expected)}`)
    }
  }
}

const textOf = ({ tokenizer }: Backend, token: number): string => tokenizer.decode([token])

/** Guesses what a constraint leaves no choice about. */
export const forcedText: Proposer = {
  begin: ({ forced }) => forced && { propose: forced },
}

const grammarProposer = defineProposer({
  name: 'grammar',
  doc: 'Guesses what a constraint leaves no choice about, as all proposers do first.',
  create: () => forcedText,
})

/** The proposer that `auto` stands for. */
const automatic = 'ngram'

/** The {@link ProposerCatalog}: the proposers of draft tokens. */
export const PROPOSERS = token<ProposerCatalog>('Proposers')

/** The proposers by name: the built-in `ngram` and `grammar`, and those of plug-ins. */
export class ProposerCatalog extends Definitions<ProposerDefinition> {
  constructor() {
    super('proposer', 'speculative')
    this.add(ngramProposer)
    this.add(grammarProposer)
  }

  /** What `--speculative` takes, beside a model. */
  override get names(): string[] {
    return ['auto', 'off', ...super.names.toSorted()]
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when there is one of this name */
  override add(definition: ProposerDefinition): void {
    if (['auto', 'off', draftModelName].includes(definition?.name)) {
      const message = `A proposer cannot be named "${definition.name}", which means something else`
      throw new CllmError('plugin_invalid', message)
    }
    super.add(definition)
  }

  /**
   * Makes the proposer of this name with these options; `off` is none.
   *
   * @throws `invalid_configuration` with the valid names, or with what is wrong with the options
   */
  create(name: string, options: Readonly<Record<string, unknown>> = {}): Proposer | undefined {
    const definition = this.#named(name)
    if (definition === undefined) return undefined
    const made = definition.create(this.options(definition, options))
    return checkMade('proposer', definition.name, made, 'begin')
  }

  /**
   * Checks that there is a proposer of this name and that it takes these options.
   *
   * @throws as {@link create}
   */
  check(name: string, options: Readonly<Record<string, unknown>> = {}): void {
    const definition = this.#named(name)
    if (definition !== undefined) this.options(definition, options)
  }

  #named(name: string): ProposerDefinition | undefined {
    if (name === 'off') return undefined
    return this.find(name === 'auto' ? automatic : name, this.names, ' or a model')
  }
}
