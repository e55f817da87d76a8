// Each thread loads these modules anew, so none may import all of @cllm/core, which takes ten times the time and
// memory.
import { receiveMessageOnPort, workerData } from 'node:worker_threads'
import koffi from 'koffi'
import type { DrawWorkerData, PlainDrawSettings, SamplerMessage } from './draw-threads.js'
import { type QueuedDraw, notDrawn, SharedDrawQueue } from './shared-draw-queue.js'
import { Candidates } from '../chain/candidates/candidates.js'
import { createChain, pick, type SamplingChain, seedAt } from '../chain/sampling-chain.js'
import { VocabularyScan } from '../chain/scan/vocabulary-scan.js'
import { DrawRandom } from '../chain/steps/draws.js'
import { addBiases } from '../chain/steps/logit-changes.js'

/** Takes part in each round of draws until the queue is closed. */
function work({ queue: memory, vocabularySize: size, samplers: port }: DrawWorkerData): void {
  const queue = new SharedDrawQueue(memory)
  const scan = new VocabularyScan(size)
  const candidates = new Candidates(scan)
  const random = new DrawRandom()
  const unused = () => {
    throw new Error('a plain draw reads no texts')
  }
  const breakers = { bytes: unused, encode: unused }
  const known = new Map<number, PlainDrawSettings & { readonly chain: SamplingChain }>()
  const views = new Map<bigint, Float32Array>()
  const learn = (): void => {
    for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) {
      const { sampler, settings } = next.message as SamplerMessage
      if (settings === undefined) known.delete(sampler)
      else known.set(sampler, { ...settings, chain: createChain(settings.params, size, breakers) })
    }
  }
  const logitsAt = (address: bigint): Float32Array => {
    let view = views.get(address)
    if (view === undefined) {
      view = new Float32Array(koffi.view(address, 4 * size))
      views.set(address, view)
    }
    return view
  }
  const draw = ({ sampler, position, address }: QueuedDraw): number => {
    try {
      const plain = known.get(sampler)
      if (plain === undefined) return notDrawn
      const { params, biases, chain } = plain
      random.seed(seedAt(params.seed, position))
      scan.logits.set(logitsAt(address))
      if (biases !== undefined) addBiases(scan.logits, biases.tokens, biases.values)
      return pick(chain, candidates, random) ?? notDrawn
    } catch {
      return notDrawn // the main thread draws it again, and says what is wrong
    }
  }
  for (let round = queue.waitForRound(0); round !== undefined; round = queue.waitForRound(round)) {
    learn()
    queue.drawAll(draw)
  }
}

work(workerData as DrawWorkerData)
