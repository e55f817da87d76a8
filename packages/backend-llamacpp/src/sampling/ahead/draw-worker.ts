import { type MessagePort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { viewMemory } from '../../native/ffi/bind-functions.js'
import { type BoardDraw, notDrawn, SharedDrawQueue } from './shared-draw-queue.js'
import { Candidates } from '../chain/candidates/candidates.js'
import { PlainDraw, type PlainDrawSettings, scanFor } from '../chain/sampling-chain.js'
import { DrawRandom } from '../chain/steps/draws.js'

/** What a thread that draws is started with. */
export interface DrawWorkerData {
  readonly board: SharedArrayBuffer
  readonly vocabularySize: number
  readonly samplers: MessagePort
}

/** Tells a thread of a sampler, or that there is none any more. */
export interface SamplerMessage {
  readonly sampler: number
  readonly settings?: PlainDrawSettings
}

/** Draws with the others, round after round, until the board is closed. */
function work({ board: memory, vocabularySize: size, samplers: port }: DrawWorkerData): void {
  const board = new SharedDrawQueue(memory)
  const scan = scanFor(size)
  const unused = () => {
    throw new Error('a plain draw reads no texts')
  }
  const workspace = {
    size,
    scan,
    candidates: new Candidates(scan),
    random: new DrawRandom(),
    bytes: unused,
    encode: unused,
  }
  const draws = new Map<number, PlainDraw>()
  const views = new Map<bigint, Float32Array>()
  const learn = (): void => {
    for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) {
      const { sampler, settings } = next.message as SamplerMessage
      if (settings === undefined) draws.delete(sampler)
      else draws.set(sampler, new PlainDraw(workspace, settings))
    }
  }
  const logitsAt = (address: bigint): Float32Array => {
    let view = views.get(address)
    if (view === undefined) {
      view = new Float32Array(viewMemory(address, 4 * size))
      views.set(address, view)
    }
    return view
  }
  const draw = ({ sampler, position, address }: BoardDraw): number => {
    try {
      return draws.get(sampler)?.draw(logitsAt(address), position) ?? notDrawn
    } catch {
      return notDrawn // the main thread draws it again, and says what is wrong
    }
  }
  for (let round = board.waitForRound(0); round !== undefined; round = board.waitForRound(round)) {
    learn()
    board.drawAll(draw)
  }
}

work(workerData as DrawWorkerData)
