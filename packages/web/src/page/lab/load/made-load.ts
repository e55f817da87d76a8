import { randomNumbers } from '@cllm/scheduler'
import { promptIds, type SimulatedRequest } from '@cllm/simulation'

/** A load of some length for a first try. */
export const usualLoad = {
  requests: 200,
  /** Requests per second; the times between them are random. */
  rate: 12,
  /** Tokens of prompts and answers on average; every fourth prompt is eight times as long. */
  promptTokens: 500,
  answerTokens: 100,
  /** Tokens that all prompts begin with. */
  sharedTokens: 256,
  tenants: 2,
  seed: 1,
}

/** A load to try policies with. */
export type MadeLoad = Readonly<typeof usualLoad>

/** The requests of a made load. The same load makes the same requests. */
export function madeRequests(load: MadeLoad): SimulatedRequest[] {
  const { promptTokens, answerTokens, sharedTokens, tenants, rate } = load
  const draw = randomNumbers(load.seed)
  const random = (): number => draw() / 2 ** 32
  let arrival = 0
  return Array.from({ length: load.requests }, (_, index) => {
    arrival += (-Math.log(1 - random()) / rate) * 1000
    const isLong = index % 4 === 3
    const own = Math.max(1, Math.round(promptTokens * (0.5 + random()) * (isLong ? 8 : 1)))
    const parts = [
      { key: 'shared', tokens: sharedTokens },
      { key: `own ${load.seed} ${index}`, tokens: own },
    ]
    return {
      id: String(index),
      arrival,
      prompt: () => promptIds(parts),
      maxTokens: Math.max(1, Math.round(answerTokens * (0.5 + random()))),
      // The first tenant asks most.
      tenant: `tenant ${Math.floor(random() ** 2 * tenants) + 1}`,
    }
  })
}
