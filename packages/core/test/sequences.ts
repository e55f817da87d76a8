import { type TokenId, defaultSampling } from '@cllm/core'
import { FakeTokenizer } from '@cllm/testing'
import { Sequence, type SequenceRequest } from '../src/engine/requests/sequence.js'

const decoder = new FakeTokenizer().createDecoder()

/** A sequence without an engine, for tests of the engine's inner parts. */
export function sequenceOf(
  tokens: readonly TokenId[],
  given: Partial<SequenceRequest> & { readonly arrival?: number } = {},
): Sequence {
  const { arrival = 0, ...request } = given
  return new Sequence(
    {
      id: 'request',
      maxTokens: 100,
      sampling: { ...defaultSampling, seed: 0 },
      processors: [],
      priority: 0,
      deadline: undefined,
      expires: undefined,
      tenant: '',
      stepGroup: undefined,
      adapters: { applied: [], key: '' },
      cache: true,
      forecast: false,
      pin: false,
      progress: false,
      logprobs: undefined,
      retainMs: undefined,
      promptLogprobs: undefined,
      speculative: true,
      contextSize: 1024,
      replayTokens: undefined,
      shift: undefined,
      describe: (token, { logprob }) => ({ token, text: '', logprob, top: [] }) as never,
      scope: '',
      decoder,
      stopMatcher: undefined,
      ...request,
    },
    [...tokens],
    arrival,
    { lookUp: () => 0 },
  )
}
