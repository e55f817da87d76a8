import { readModels, type ServedModelState } from './model-states.js'
import type { ServerClient } from './server-client.js'

/** A slot, as `GET /slots` shows it. */
export interface SlotState {
  readonly id: number
  /** `idle`, or the state of its request, such as `decoding`. */
  readonly state: string
  /** Tokens in it. */
  readonly n_past: number
  /** Tokens that it holds at most. */
  readonly n_ctx: number
}

/** What a model does. */
export interface ModelActivity extends ServedModelState {
  readonly slots: readonly SlotState[]
  /** Requests with a slot, and without one. */
  readonly running: number
  readonly queued: number
  /** Tokens computed since the start, of prompts and of answers. */
  readonly prefillTokens: number
  readonly decodeTokens: number
}

/** What a server does at a time. */
export interface Activity {
  /** Milliseconds, to be compared with another one's. */
  readonly at: number
  readonly models: readonly ModelActivity[]
}

/** Reads what a server does, from `GET /models`, `/slots` and `/metrics`. */
export async function readActivity(client: ServerClient, signal: AbortSignal): Promise<Activity> {
  const [models, metrics] = await Promise.all([
    readModels(client, signal),
    client.text('/metrics', signal),
  ])
  const at = performance.now()
  const active = models.map(async (model): Promise<ModelActivity> => {
    const query = `/slots?model=${encodeURIComponent(model.name)}`
    const slots = (await client.get(query, signal)) as readonly SlotState[]
    const value = (name: string, labels: Readonly<Record<string, string>> = {}): number =>
      sample(metrics, name, { model_name: model.name, ...labels })
    return {
      ...model,
      slots,
      running: value('cllm_num_requests_running'),
      queued: value('cllm_num_requests_waiting'),
      prefillTokens: value('cllm_step_tokens_total', { kind: 'prefill' }),
      decodeTokens: value('cllm_step_tokens_total', { kind: 'decode' }),
    }
  })
  return { at, models: await Promise.all(active) }
}

/** The value of a metric in Prometheus' text format; 0 where it is not there. */
function sample(text: string, name: string, labels: Readonly<Record<string, string>>): number {
  const wanted = Object.entries(labels).map(([key, value]) => `${key}=${JSON.stringify(value)}`)
  const line = text
    .split('\n')
    .find((one) => one.startsWith(`${name}{`) && wanted.every((label) => one.includes(label)))
  return Number(line?.slice(line.lastIndexOf(' ') + 1) ?? 0)
}
