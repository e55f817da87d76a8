import type {
  EngineClient,
  GenerateRequest,
  OutputConstraint,
  Prompt,
  RequestReports,
  RequestScheduling,
  SamplingParams,
} from '@cllm/core'
import { defaultSampling } from '@cllm/core'
import { largest, isObject } from '../fields/fields.js'
import { expectedField, unsupported } from './refusals.js'

type OrUndefined<T> = { readonly [Key in keyof T]?: T[Key] | undefined }

/** The settings that are sampling parameters; the others are the engine's own. */
const samplingNames = new Set([...Object.keys(defaultSampling), 'constraint', 'samplers'])

/** The settings of a request of any protocol, in cLLM's names; undefined where it has none. */
export interface RequestSettings
  extends
    OrUndefined<Omit<SamplingParams, 'logitBias'>>,
    OrUndefined<RequestScheduling & RequestReports>,
    OrUndefined<Pick<GenerateRequest, 'adapters' | 'contextShift'>> {
  readonly maxTokens?: number | undefined
  readonly logitBias?: Readonly<Record<string, number>> | undefined
  readonly stop?: string | readonly string[] | undefined
}

/** The values of fields that a request leaves out. */
export interface ProtocolDefaults {
  /** The most tokens of an answer; `Infinity`: as many as fit the slot. */
  readonly maxTokens: number
  /** The sampling parameters that differ from the engine's own defaults. */
  readonly sampling: Partial<SamplingParams>
  /** The sampling parameters that an operator has set, which override the model's recommendation. Default: none. */
  readonly set?: Partial<SamplingParams>
  /** Stop texts; default: none. */
  readonly stop?: readonly string[] | undefined
}

/** Values that an operator has set in place of a protocol's own. */
export type DefaultOverrides = Partial<Omit<ProtocolDefaults, 'set' | 'stop'>>

/** Makes the engine's request from a client's settings and the protocol's defaults. */
export function buildRequest(
  prompt: Prompt,
  settings: RequestSettings,
  defaults: ProtocolDefaults,
): GenerateRequest {
  const { maxTokens, stop, logitBias, seed, ...others } = settings
  const sampling: Record<string, unknown> = { ...defaults.set }
  const options: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(others)) {
    if (value === undefined) continue
    if (samplingNames.has(name)) sampling[name] = value
    else options[name] = value
  }
  // a negative seed means a random one, as in llama-server, whatever the operator has set
  if (seed !== undefined && seed < 0) delete sampling['seed']
  else if (seed !== undefined) sampling['seed'] = seed % 2 ** 32
  if (logitBias !== undefined) {
    sampling['logitBias'] = Object.entries(logitBias).map(([id, bias]) => [Number(id), bias])
  }
  const stops = [stop ?? []].flat().filter(Boolean)
  return {
    prompt,
    maxTokens: Math.min(maxTokens ?? defaults.maxTokens, largest),
    sampling,
    fallbackSampling: defaults.sampling,
    stop: stops.length > 0 ? stops : (defaults.stop ?? []),
    ...(options as Partial<GenerateRequest>),
  }
}

/** {@link buildRequest} with a route's defaults and those of the client's preset. */
export const requestFor = (
  client: EngineClient,
  prompt: Prompt,
  settings: RequestSettings,
  defaults: ProtocolDefaults,
): GenerateRequest => buildRequest(prompt, settings, withModelDefaults(client, defaults))

/** The requests for several prompts, each repeated; an empty prompt becomes the model's BOS token. */
export async function requestsFor(
  client: EngineClient,
  prompts: readonly Prompt[],
  settings: RequestSettings,
  defaults: ProtocolDefaults,
  times: number,
): Promise<GenerateRequest[]> {
  const own = withModelDefaults(client, defaults)
  const each = prompts.map(async (given) => {
    const isEmpty = 'text' in given && given.text === ''
    const prompt = isEmpty ? { tokens: await client.tokenize('') } : given
    return repeatRequest(buildRequest(prompt, settings, own), times)
  })
  return (await Promise.all(each)).flat()
}

/** Repeats a request; each repetition after the first has the next seed. */
export function repeatRequest(request: GenerateRequest, times: number): GenerateRequest[] {
  if (times === 1) return [request]
  const seed = request.sampling?.seed
  return Array.from({ length: times }, (_, index) =>
    seed === undefined || index === 0
      ? request
      : { ...request, sampling: { ...request.sampling, seed: (seed + index) % 2 ** 32 } },
  )
}

/** A route's defaults, overridden by those of the client's preset, which also override an operator's. */
export function withModelDefaults(
  { preset }: EngineClient,
  defaults: ProtocolDefaults,
): ProtocolDefaults {
  if (preset === undefined) return defaults
  return {
    ...defaults,
    maxTokens: preset.maxTokens ?? defaults.maxTokens,
    set: { ...defaults.set, ...preset.sampling },
    stop: preset.stop,
  }
}

/** A constraint on the output, and the field that asks for it. */
export interface FieldConstraint {
  readonly field: string
  readonly constraint: OutputConstraint
}

/**
 * The constraint of a field with a JSON schema, which the backend checks.
 *
 * @param at - the place of the schema within the field, for the message
 * @throws `invalid_request` for another value
 */
export function schemaConstraint(field: string, value: unknown, at = field): FieldConstraint {
  if (typeof value !== 'boolean' && !isObject(value)) throw expectedField(at, 'a JSON schema')
  return { field, constraint: { type: 'json-schema', schema: value } }
}

/** The constraint of a field `grammar` in GBNF; an empty text is none. */
export const grammarConstraint = (grammar: string): FieldConstraint | undefined =>
  grammar === '' ? undefined : { field: 'grammar', constraint: { type: 'gbnf', grammar } }

/**
 * The only constraint of a request. Constraints are never ignored.
 *
 * @throws `invalid_request` when there are two, or `unsupported` when the backend has no grammars
 */
export async function onlyConstraint(
  client: EngineClient,
  constraints: readonly (FieldConstraint | undefined)[],
): Promise<OutputConstraint | undefined> {
  const [first, second] = constraints.filter((constraint) => constraint !== undefined)
  if (first === undefined) return undefined
  if (second !== undefined) throw expectedField(second.field, `nothing beside ${first.field}`)
  const { capabilities } = await client.info()
  if (capabilities.grammar) return first.constraint
  throw unsupported(first.field, 'this backend cannot keep output to a grammar or schema')
}
