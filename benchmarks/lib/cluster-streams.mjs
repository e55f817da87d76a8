import { complete } from './completion.mjs'
import { pause } from './servers.mjs'

const json_schema = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 60 }, age: { type: 'integer' } },
  required: ['name', 'age'],
}

/** Requests for streams: a third greedy, a third sampled, a third held to a JSON schema. */
export function streamRequests(count, tokens) {
  return Array.from({ length: count }, (_, index) => {
    const prompt = `Story ${index}. Once upon a time there was a ${['cat', 'boy', 'tree'][index % 3]}`
    const own = [
      { ignore_eos: true },
      { temperature: 0.9, top_p: 0.95, repeat_penalty: 1.1, seed: index, ignore_eos: true },
      { temperature: 0.8, seed: index, json_schema },
    ]
    return { prompt, n_predict: tokens, stream: true, ...own[index % 3] }
  })
}

/** Each request alone on an undisturbed server. */
export async function undisturbed(url, requests) {
  const answers = []
  for (const body of requests) answers.push(await complete(url, { body }))
  const failed = answers.find(({ ended }) => !ended)
  if (failed !== undefined) throw new Error(`an undisturbed request failed: ${failed.error}`)
  return answers
}

/**
 * Asks the requests over and over, each of them one after the other, until told to stop.
 *
 * @param urls returns the fronts that take requests now
 */
export function keepAsking(urls, requests, expected) {
  const over = new AbortController()
  let turn = 0
  const found = { same: 0, streams: 0, tokens: 0, lost: 0, repeated: 0, changed: 0, failed: 0 }
  const errors = []
  /** All times at which a stream got tokens, by stream. */
  const times = []
  const firsts = []
  const loop = async (body, index) => {
    while (!over.signal.aborted) {
      const all = urls()
      if (all.length === 0) {
        await pause(20)
        continue
      }
      const began = performance.now()
      const answer = await complete(all[turn++ % all.length], { body, fresh: true })
      found.streams++
      found.tokens += answer.tokens.length
      if (!answer.ended) {
        found.failed++
        errors.push(answer.error)
      } else {
        found[compare(answer.tokens, expected[index].tokens)]++
        firsts.push(answer.times[0] - began)
      }
      times.push(answer.times)
    }
  }
  const loops = Promise.all(requests.map(loop))
  return {
    found,
    times,
    firsts,
    errors,
    async stop() {
      over.abort()
      await loops
      const { same: _, ...shown } = found
      return shown
    },
  }
}

/** `same`, or what is wrong with the tokens of an answer. */
function compare(tokens, expected) {
  const at = expected.findIndex((token, index) => token !== tokens[index])
  if (at < 0) return tokens.length === expected.length ? 'same' : 'repeated'
  if (tokens[at] === undefined || expected.slice(at + 1, at + 6).includes(tokens[at])) {
    const rest = tokens.slice(at).join()
    if (tokens.length < expected.length && expected.join().endsWith(rest)) return 'lost'
  }
  const isTwice = tokens.length > expected.length && tokens[at] === expected[at - 1]
  return isTwice ? 'repeated' : 'changed'
}

/** The gap of each stream that was under way at a moment, for all moments. */
export function gapsAt(times, moments) {
  return moments.flatMap((moment) =>
    times.flatMap((one) => {
      const next = one.findIndex((time) => time > moment)
      return next > 0 ? [one[next] - one[next - 1]] : []
    }),
  )
}
