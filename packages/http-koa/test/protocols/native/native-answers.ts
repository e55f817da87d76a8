import { FakeTokenizer, scriptAnswers } from '@cllm/testing'

/** Prompts with a known answer. */
export const script = scriptAnswers(new FakeTokenizer(), {
  euro: 'a€ b',
  'held back': 'aX',
  stopped: 'aXYb',
  quote: '"\n\\',
})

/** What the native API answers. */
export interface Answer {
  readonly success: boolean
  readonly data: Record<string, unknown>
  readonly error: string
  readonly code: string
  readonly field?: string
}

/** The body of an answer. */
export async function json(response: Response | Promise<Response>): Promise<Answer> {
  return (await (await response).json()) as Answer
}

/** The text of a stream's events together. */
export const textOf = (events: readonly Record<string, unknown>[]): string =>
  events.map((event) => event.token).join('')
