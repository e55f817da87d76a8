import {
  defined,
  type GenerateRequest,
  type Prompt,
  type SamplingParams,
  type TokenId,
} from '@cllm/core'
import { largest } from '../fields/fields.js'
import type { ProtocolDefaults } from './protocol-defaults.js'

type OrUndefined<T> = { readonly [Key in keyof T]?: T[Key] | undefined }

/** The settings that are the engine's own; the others are sampling parameters. */
const engineSettingNames = [
  'priority',
  'deadlineMs',
  'timeoutMs',
  'tenant',
  'session',
  'cache',
  'slot',
  'logprobs',
  'drawLogprobs',
  'keepMs',
  'promptLogprobs',
  'marks',
  'speculative',
  'progress',
  'adapters',
  'contextShift',
] as const
const engineSettings: ReadonlySet<string> = new Set(engineSettingNames)

/** The settings of a request of any protocol, in cLLM's names; undefined where it has none. */
export interface RequestSettings
  extends
    OrUndefined<Omit<SamplingParams, 'logitBias'>>,
    OrUndefined<Pick<GenerateRequest, (typeof engineSettingNames)[number]>> {
  readonly maxTokens?: number | undefined
  readonly logitBias?: Readonly<Record<string, number>> | undefined
  readonly stop?: string | readonly string[] | undefined
}

/** Makes the engine's request from a client's settings and the protocol's defaults. */
export function buildRequest(
  prompt: Prompt,
  settings: RequestSettings,
  defaults: ProtocolDefaults,
): GenerateRequest {
  const { maxTokens, stop, logitBias, seed, ...others } = settings
  const same = Object.entries(others).filter(([name]) => !engineSettings.has(name))
  const sampling = defined({
    ...Object.fromEntries(same),
    seed: toSeed(seed),
    logitBias: logitBias && toPairs(logitBias),
  })
  const options = Object.entries(others).filter(([name]) => engineSettings.has(name))
  return {
    prompt,
    maxTokens: Math.min(maxTokens ?? defaults.maxTokens, largest),
    sampling: { ...(isRandom(seed) ? withoutSeed(defaults.set) : defaults.set), ...sampling },
    fallbackSampling: defaults.sampling,
    stop: typeof stop === 'string' ? [stop] : stop?.length ? stop : (defaults.stop ?? []),
    ...defined(Object.fromEntries(options)),
  }
}

/** A negative seed means a random one, as in llama-server, whatever the operator has set. */
const isRandom = (seed: number | undefined): boolean => (seed ?? 0) < 0

const withoutSeed = (set: ProtocolDefaults['set']) => defined({ ...set, seed: undefined })

/** A 32-bit seed. */
function toSeed(seed: number | undefined): number | undefined {
  return seed === undefined || isRandom(seed) ? undefined : seed % 2 ** 32
}

function toPairs(bias: Readonly<Record<string, number>>): (readonly [TokenId, number])[] {
  return Object.entries(bias).map(([token, value]) => [Number(token), value])
}
