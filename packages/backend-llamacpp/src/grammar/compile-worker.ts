// The code of the thread of `CompileThread`.
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import type { OutputConstraint, TokenId } from '@cllm/core'
import { entryOf } from '@cllm/core/defined'
import { CllmError } from '@cllm/core/errors'
import { compileConstraint } from './compile-constraint.js'
import type { CompileReply, ThreadSetup, TokenQuestion } from './compile-thread.js'
import type { GrammarTokens } from './match/token-grammar.js'
import { grammarLimits } from './refuse.js'

const { answers, ...ofModel } = workerData as ThreadSetup

const send = (message: CompileReply | TokenQuestion): void => parentPort?.postMessage(message, [])

/** Asks the engine's thread, which alone has the model, for the tokens that a grammar names. */
function ask(name: string): readonly TokenId[] {
  const before = Atomics.load(answers, 0)
  send({ name })
  Atomics.wait(answers, 0, before)
  return receiveMessageOnPort(parentPort!)!.message as readonly TokenId[]
}

function compile(constraint: string): CompileReply {
  const known = new Map<string, readonly TokenId[]>()
  const tokens: GrammarTokens = {
    ...ofModel,
    bytes: () => new Uint8Array(),
    encode: (name) => entryOf(known, name, () => ask(name)),
  }
  const parsed = JSON.parse(constraint) as OutputConstraint
  const grammar = compileConstraint(parsed, tokens, grammarLimits)
  return { rules: grammar.rules, first: grammar.mask(grammar.begin()) }
}

parentPort?.on('message', (constraint: string) => {
  try {
    send(compile(constraint))
  } catch (error) {
    send({ problem: CllmError.from(error).serialize() })
  }
})
