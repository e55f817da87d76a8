import type { BackendContext, Clock } from '@cllm/core'
import { type Candidate, type Figures, measuredWidths } from './build-info.js'
import { buildFailure } from './cmake-project.js'
import type { NativeContext } from '../native-context.js'
import { openLlama } from '../open-llama.js'
import { chooseThreads, type CoreShare } from '../../threads/cores.js'

const promptTokens = 128
const unmeasuredSteps = 2
const measuredSteps = 9
const widest = Math.max(...measuredWidths)
const cellsPerSequence = 256

/** Options of {@link measureLibraries}. */
export interface MeasureOptions<Name extends Candidate> extends BackendContext {
  readonly modelPath: string
  /** The libraries' files; undefined for node-llama-cpp's. */
  readonly libraries: ReadonlyMap<Name, string | undefined>
  /** Default: as the backend chooses them. */
  readonly threads?: number | undefined
  readonly cores: CoreShare
  /** How often each library is measured; default 3. */
  readonly rounds?: number
  /** CPU time of this process in milliseconds. */
  readonly cpuTime: () => number
  readonly signal: AbortSignal
  /** Called with the finished share, from 0 to 1. */
  readonly onProgress?: (done: number) => void
}

/** Tokens per second of each library. */
export interface Measurement<Name extends Candidate> {
  readonly threads: number
  /** CPU time divided by wall time of all threads: far below 1 if other processes took the cores. */
  readonly cpuShare: number
  readonly figures: Readonly<Record<Name, Figures>>
}

/**
 * Measures libraries on the CPU, in alternation and with one model in memory at a time. The fastest round counts, as
 * other processes can only make it slower. With one thread it measures CPU time, which other processes hardly change;
 * with more threads wall time, as waiting threads may spin or sleep. The process should be started with
 * `UV_THREADPOOL_SIZE=1`.
 * @throws CllmError `native_build_failed` if a library cannot be used, or the signal's reason
 */
export async function measureLibraries<Name extends Candidate>(
  options: MeasureOptions<Name>,
): Promise<Measurement<Name>> {
  const { libraries, cores, rounds = 3, logger, signal, onProgress } = options
  const llama = await openLlama('off', logger)
  const { most: threads } = chooseThreads(options.threads, llama.mathCores, cores, logger)
  const stopwatch = new Stopwatch(options.clock, options.cpuTime, threads)
  const fastest = new Map<Name, readonly number[]>()
  for (let round = 0; round < rounds; round++) {
    for (const [index, [name, library]] of [...libraries].entries()) {
      signal.throwIfAborted()
      const rates = await measureOnce(options, library, threads, stopwatch)
      const before = fastest.get(name) ?? rates
      const faster = rates.map((rate, width) => Math.max(rate, before[width]!))
      fastest.set(name, faster)
      onProgress?.((round + (index + 1) / libraries.size) / rounds)
    }
  }
  const { cpuShare } = stopwatch
  const figures = Array.from(fastest, ([name, [prefill, ...decode]]) => [name, { prefill, decode }])
  return { threads, cpuShare, figures: Object.fromEntries(figures) as Record<Name, Figures> }
}

/** Tokens per second of one library: of the prompt, then of decodes with each width. */
async function measureOnce(
  { modelPath, logger, signal }: MeasureOptions<Candidate>,
  library: string | undefined,
  threads: number,
  stopwatch: Stopwatch,
): Promise<number[]> {
  const llama = await openLlama('off', logger)
  const contextSize = widest * cellsPerSequence
  const place = { gpuLayers: 0, contextSize, mmap: true, mlock: false, ignoreMemory: true }
  const door = await llama.openDoor('ffi', library)
  if (door.name !== (library === undefined ? 'prebuilt' : 'built')) {
    throw buildFailure(`${library ?? 'the prebuilt library'} cannot be used here`)
  }
  const loaded = await door.loadModel({ ...place, modelPath })
  try {
    const context = await loaded.createContext({
      contextSize,
      sequences: widest,
      batchSize: promptTokens,
      outputs: widest,
      threads,
      flashAttention: 'auto',
      kvCacheType: 'f16',
    })
    if (context === undefined) throw buildFailure(`${modelPath} does not fit into memory`)
    try {
      let last = 0
      // arbitrary tokens: the time does not depend on them
      const next = () => (last++ * 31) % loaded.vocabularySize
      return await measurePasses(context, async (width, position, count) => {
        signal.throwIfAborted()
        const runs = Array.from({ length: width }, (_, sequence) => {
          const tokens = Array.from({ length: count }, next)
          return { sequence, position, tokens, outputs: [position + count - 1] }
        })
        return await stopwatch.time(() => context.decodeBatch(runs))
      })
    } finally {
      await context.dispose()
    }
  } finally {
    await loaded.dispose()
  }
}

/** Milliseconds of a forward pass with `count` tokens of each of `width` sequences. */
type Pass = (width: number, position: number, count: number) => Promise<number>

/** Tokens per second of a prompt, after an unmeasured one, and of decodes, from the median time of the steps. */
async function measurePasses(context: NativeContext, pass: Pass): Promise<number[]> {
  let promptMs = 0
  for (let nth = 0; nth < 2; nth++) {
    promptMs = await pass(1, 0, promptTokens)
    context.disposeSequence(0)
  }
  const rates = [(1000 * promptTokens) / promptMs]
  for (const width of measuredWidths) {
    const times: number[] = []
    for (let step = 0; step < unmeasuredSteps + measuredSteps; step++) {
      times.push(await pass(width, step, 1))
    }
    for (let sequence = 0; sequence < width; sequence++) context.disposeSequence(sequence)
    const sorted = times.slice(unmeasuredSteps).sort((a, b) => a - b)
    rates.push((1000 * width) / sorted[measuredSteps >> 1]!)
  }
  return rates
}

/** Times forward passes. */
class Stopwatch {
  #wall = 0
  #cpu = 0

  constructor(
    private readonly clock: Clock,
    private readonly cpuTime: () => number,
    private readonly threads: number,
  ) {}

  /** CPU time divided by wall time of all threads, from 0 to 1. */
  get cpuShare(): number {
    return this.#wall === 0 ? 1 : Math.min(1, this.#cpu / (this.#wall * this.threads))
  }

  /** Runs a pass and returns its time in milliseconds. */
  async time(run: () => Promise<unknown>): Promise<number> {
    const [beganAt, cpuAt] = [this.clock.now(), this.cpuTime()]
    await run()
    const [wall, cpu] = [this.clock.now() - beganAt, this.cpuTime() - cpuAt]
    this.#wall += wall
    this.#cpu += cpu
    return this.threads === 1 ? cpu : wall
  }
}
