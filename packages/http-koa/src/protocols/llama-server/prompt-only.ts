import type { Generation, GenerationEvents } from '../../request/generation.js'

/**
 * A generation of which the prompt alone is wanted, so that the next request finds it computed: editors ask
 * for that while nothing is typed. The one token that an engine generates at least is dropped.
 */
export const promptOnly = (generation: Generation): Generation => ({
  ...generation,
  events: withoutAnswer(generation.events),
})

async function* withoutAnswer(events: GenerationEvents): GenerationEvents {
  for await (const event of events) {
    if (event.type === 'token') continue
    if (event.type !== 'end') {
      yield event
      continue
    }
    const { stop: _, ...end } = event
    yield { ...end, text: '', reason: 'length', usage: { ...event.usage, generatedTokens: 0 } }
  }
}
