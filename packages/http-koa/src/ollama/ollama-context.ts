import { CllmError, type EngineClient, type EngineDirectory } from '@cllm/core'
import type { KoaContext } from '../koa-context.js'
import type { UnknownFields } from '../native/unknown-fields.js'
import type { DefaultOverrides } from '../request/protocol-defaults.js'

/** What the handlers of Ollama's API share. */
export interface OllamaContext {
  readonly directory: EngineDirectory
  readonly version: string
  readonly overrides: DefaultOverrides
  readonly unknownFields: UnknownFields
  readonly unknownOptions: UnknownFields
  /** When the server started, in milliseconds since the epoch. */
  readonly started: number
}

/** The engine of a model, whose name may end with Ollama's `:latest`. */
export function openOllamaModel(directory: EngineDirectory, name: string): EngineClient {
  const names = directory.list()
  const plain = name.replace(/:latest$/, '')
  const known = [name, plain].find((candidate) => names.includes(candidate))
  if (known !== undefined) return directory.open(known)
  throw new CllmError(
    'model_not_found',
    `model '${name.slice(0, 100)}' not found: expected one of ${names.join(', ')}`,
    { details: { field: 'model' } },
  )
}

/** As Ollama lists it: always with a tag. */
export const taggedName = (id: string): string => (id.includes(':') ? id : `${id}:latest`)

/** A time as Ollama writes it. */
export const timeText = (milliseconds: number): string => new Date(milliseconds).toISOString()

/** What every chunk of an answer begins with. */
export const chunkHead = (ctx: KoaContext, model: string): string => {
  const created = timeText(ctx.state.transport.clock.now())
  return `{"model":${JSON.stringify(model)},"created_at":${JSON.stringify(created)},`
}
