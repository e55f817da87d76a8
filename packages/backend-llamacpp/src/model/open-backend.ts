import { CellPool, CllmError } from '@cllm/core'
import type { LlamaCppDependencies } from '../create-llamacpp-backend.js'
import { ConstraintGrammars } from '../grammar/constraint-grammars.js'
import { LlamaCppBackend, type LlamaCppBackendParts } from '../llamacpp-backend.js'
import type { LlamaRuntime, LoadedModel, NativeDoor } from '../native/native.js'
import { SlotCells } from '../slots/slot-cells.js'
import { ChatTemplate } from '../text/chat-template.js'
import { compileTemplate } from '../text/compile-template.js'
import { PlainTextGuard } from '../text/plain-text-guard.js'
import { TextParts } from '../text/text-parts.js'
import { LlamaCppTokenizer } from '../text/tokenizer.js'
import { Vocabulary } from '../text/vocabulary.js'
import { capabilitiesOf, limitsOf, tileOf } from './capabilities-of.js'
import { Embedder } from './embedder.js'
import { LlamaCppAdapters } from './llamacpp-adapters.js'
import { cellsOf } from './memory-plan.js'
import { modelInfo } from './model-info.js'
import type { ModelShape } from './model-shape.js'
import { type ContextSettings, type OpenContext, openContext } from './open-context.js'
import { embeddingTokens, openEmbeddings } from './open-embeddings.js'
import { openStates } from './open-states.js'

/** A model in memory. */
export interface OpenModel {
  readonly llama: LlamaRuntime
  readonly door: NativeDoor
  readonly loaded: LoadedModel
  readonly shape: ModelShape
  /** Bytes that it takes with its slots. */
  readonly memoryBytes: number
}

/** What a backend works with besides its model. */
export type BackendDependencies = Pick<
  LlamaCppDependencies,
  'clock' | 'logger' | 'availableMemory'
> &
  Pick<LlamaCppBackendParts, 'close'>

/**
 * Makes the context of a model, and the backend that computes in it.
 * @throws CllmError as `openContext` does, and `model_invalid` where the model has no vocabulary
 */
export async function openBackend(
  model: OpenModel,
  settings: ContextSettings,
  dependencies: BackendDependencies,
): Promise<LlamaCppBackend> {
  const opened = await openContext(model.loaded, settings, cellsOf(settings), dependencies.clock)
  try {
    return assemble(model, opened, settings, dependencies)
  } catch (error) {
    await opened.context.dispose()
    throw error
  }
}

function assemble(
  model: OpenModel,
  opened: OpenContext,
  settings: ContextSettings,
  dependencies: BackendDependencies,
): LlamaCppBackend {
  const { llama, loaded, shape } = model
  const { clock, logger, close } = dependencies
  const { modelPath, slots, contextSize: slotSize, kvTokens } = settings
  const { native, vocabularySize, chatTemplate: own } = loaded
  if (vocabularySize === 0) {
    throw new CllmError('model_invalid', `${modelPath} holds no vocabulary`)
  }
  const vocabulary = new Vocabulary(native, vocabularySize)
  const parts = new TextParts(native, vocabulary)
  const guard = new PlainTextGuard(parts, vocabulary)
  const template = ChatTemplate.choose(settings.chatTemplate, own, guard, vocabulary, logger, {
    compile: (source) => compileTemplate(source, (text) => llama.compileJinja(text)),
    now: () => clock.now(),
  })
  const tokenizer = new LlamaCppTokenizer(parts, vocabulary, template)
  const samplers = opened.samplers(vocabulary, tokenizer, logger)
  const capabilities = capabilitiesOf(llama, loaded, shape, opened, samplers, settings)
  const { stateful, context } = opened
  const kvUnified = settings.kvUnified === 'on'
  const cells = new SlotCells(context, slots, {
    slotSize,
    slidingWindow: shape.slidingWindow,
    isRecurrent: shape.isRecurrent,
    copiesLate: !kvUnified,
    shifting: capabilities.contextShift === true ? stateful : undefined,
    ...(kvTokens !== undefined && { pool: new CellPool(cellsOf(settings), slots) }),
  })
  const { loadAdapter } = loaded
  const adapters =
    loadAdapter !== undefined && stateful !== undefined
      ? new LlamaCppAdapters({ loadAdapter }, stateful, {
          modelPath,
          architecture: shape.architecture,
        })
      : undefined
  return new LlamaCppBackend({
    model: modelInfo(model, settings, vocabulary, template),
    limits: limitsOf(llama, loaded, settings),
    capabilities,
    tokenizer,
    vocabulary,
    context,
    cells,
    adapters,
    states: openStates(opened, cells, shape, settings, loaded),
    samplers,
    threads: opened.threads,
    setAborting: opened.setAborting,
    kvUnified,
    tile: tileOf(llama, settings),
    embedder: new Embedder(
      () => openEmbeddings(llama, loaded, shape, settings, dependencies),
      vocabulary,
      {
        tokens: embeddingTokens(settings),
        inputs: loaded.embeddingInputs,
        eachToken: settings.pooling === 'none',
      },
    ),
    grammars: new ConstraintGrammars(loaded.parseGrammar, vocabulary),
    clock,
    close,
  })
}
