import { once } from 'node:events'
import { resolveModel } from 'cllm'
import type { Test } from 'tap'
import { listening, start } from '../start-process.js'
import { until } from '../until.js'

/** What the clients ask. */
export const model = 'stories'
export const messages = [{ role: 'user' as const, content: 'Tell me a story about a €uro 🐶.' }]
export const greedy = { temperature: 0, max_tokens: 40 }

/** A person, small enough for a model of stories. */
export const personSchema = {
  type: 'object' as const,
  properties: {
    name: { enum: ['Lily', 'Tim'] },
    age: { type: 'integer', minimum: 1, maximum: 9 },
  },
  required: ['name', 'age'],
  additionalProperties: false,
}

/** Starts `cllm serve` with a model of stories, for clients that nobody here wrote. */
export async function serveStories(t: Test, ...more: string[]) {
  const { path: modelPath } = await resolveModel('stories15m')
  const args = ['--model', modelPath, '--model-id', model, '--slots', '4', '--threads', '1']
  const usual = ['serve', '--port', '0', '--gpu', 'off', '--log-level', 'warn']
  const server = start(t, [...usual, ...args, ...more])
  const { url, errors } = await listening(t, server)
  return {
    url,
    /** Posts JSON and reads JSON. */
    post: async (path: string, body: unknown): Promise<Record<string, unknown>> => {
      const headers = { 'content-type': 'application/json' }
      const init = { method: 'POST', headers, body: JSON.stringify(body) }
      return (await (await fetch(url + path, init)).json()) as Record<string, unknown>
    },
    /** Resolves when no slot is at work. */
    idle: async (): Promise<void> => {
      type Slot = { is_processing: boolean }
      const busy = async () => {
        const slots = (await (await fetch(`${url}/slots`)).json()) as Slot[]
        return slots.some((slot) => slot.is_processing)
      }
      await until(async () => !(await busy()))
    },
    /** Ends the server and resolves with what it has logged. */
    stop: async (): Promise<string> => {
      server.kill('SIGTERM')
      await once(server, 'exit')
      return await errors
    },
  }
}
