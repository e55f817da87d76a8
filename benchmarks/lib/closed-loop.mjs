import { text } from './prompts.mjs'
import { median, quantile, sum } from './statistics.mjs'
import { gaps, stream } from './stream.mjs'

/** `concurrency` clients, each sending its next request, with a fresh prompt, when the one before has ended. */
export async function closedLoop(server, { concurrency, requests, words, tokens, random }) {
  const began = performance.now()
  const client = async () => {
    const answers = []
    for (let index = 0; index < requests; index++) {
      const prompt = text(words + Math.floor(random() * 8), random)
      answers.push(await stream(server, { prompt, tokens }))
    }
    return answers
  }
  const answers = (await Promise.all(Array.from({ length: concurrency }, client))).flat()
  const seconds = (performance.now() - began) / 1000
  return {
    throughput: sum(answers.map(({ times }) => times.length)) / seconds,
    ttft: median(answers.map(({ times }) => times[0])),
    itl: median(answers.flatMap(gaps)),
    itlP99: quantile(answers.flatMap(gaps), 0.99),
    itlMax: quantile(answers.flatMap(gaps), 1),
  }
}
