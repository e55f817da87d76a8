import { join } from 'node:path'
import type { Clock, Logger } from '@cllm/core'
import type { LlamaCppBackend } from '../llamacpp-backend.js'
import { stateKey } from '../model/state-key.js'
import type { ModelShape } from '../model/model-shape.js'
import type { ContextSettings } from '../model/open-context.js'
import type { LlamaRuntime, LoadedModel } from '../native/native.js'
import { llamaVersion } from '../native/versions.js'
import { chooseLayout, type KvLayout, type LayoutChoice } from './choose-layout.js'
import { type LayoutNotes, readNotes, writeNotes } from './layout-file.js'
import { LoadJournal } from './load-journal.js'
import { type Load, LoadRecord } from './load-record.js'
import { measureSteps } from './measure-steps.js'

/** What is loaded, and with which settings. */
export interface LoadedParts {
  readonly llama: Pick<LlamaRuntime, 'gpuNames'>
  readonly loaded: LoadedModel
  readonly shape: Pick<ModelShape, 'slidingWindow' | 'isRecurrent' | 'looksAhead'>
  readonly settings: ContextSettings
}

/** What {@link findLayout} works with. */
export interface LayoutDependencies {
  readonly clock: Clock
  readonly logger: Logger
  /** The folder in which the loads of models are kept; default: none is. */
  readonly layouts?: string | undefined
}

/** The layout of a model's KV cells. */
export interface FoundLayout {
  readonly kvUnified: 'on' | 'off'
  /** What its load is written into; undefined: it decides nothing. */
  readonly journal?: LoadJournal
}

/**
 * Finds the layout of a model's KV cells where the settings leave it open: that with which the steps of the
 * load which it had before take less time, as measured here. On a CPU alone, `auto` is cells for each slot,
 * as one pass over the weights saves less there than attention over all cells costs.
 *
 * @param open - makes a backend of this layout, whose disposal leaves the model loaded
 */
export async function findLayout(
  parts: LoadedParts,
  { clock, logger, layouts }: LayoutDependencies,
  open: (kvUnified: 'on' | 'off') => Promise<LlamaCppBackend>,
): Promise<FoundLayout> {
  const { kvUnified } = parts.settings
  if (kvUnified === 'on' || kvUnified === 'off') return { kvUnified }
  if (layouts === undefined || !isOpen(parts)) return { kvUnified: 'off' }
  const path = join(layouts, `${await keyOf(parts)}.json`)
  const notes = await readNotes(path).catch((error: unknown) => {
    logger.warn({ path, err: error }, 'the notes on KV layouts cannot be read and begin anew')
    return undefined
  })
  const earlier = notes?.load ?? { counts: [], shifts: false }
  const current = notes?.layout ?? 'own'
  const measure = async (layout: KvLayout, shapes: Parameters<typeof measureSteps>[1]) => {
    const backend = await open(flagOf(layout))
    try {
      return await measureSteps(backend, shapes, clock)
    } finally {
      await backend.dispose()
    }
  }
  const began = clock.now()
  const choice = await chooseLayout(earlier, current, notes?.costs ?? [], began, measure).catch(
    (error: unknown): LayoutChoice => {
      logger.warn({ err: error }, 'KV layouts could not be compared: each slot has its own cells')
      return { layout: 'own', costs: notes?.costs ?? [] }
    },
  )
  const { layout, ratio, costs } = choice
  const ms = Math.round(clock.now() - began)
  logger.info({ layout, ratio, ms }, textOf(choice))
  const write = (load: Load) => save(path, { load, layout, costs }, logger)
  return {
    kvUnified: flagOf(layout),
    journal: new LoadJournal(new LoadRecord(fading(earlier)), write),
  }
}

/** Whether both layouts can be had, and either may be the better one. */
function isOpen({ loaded, shape, settings }: LoadedParts): boolean {
  const { slots, kvUnified } = settings
  const isPlain = shape.slidingWindow === undefined && !shape.isRecurrent && !shape.looksAhead
  if (loaded.path !== 'ffi' || slots === 1 || !isPlain) return false
  return kvUnified === 'measured' || loaded.onGpu !== 'none'
}

async function keyOf({ llama, loaded, settings }: LoadedParts): Promise<string> {
  const { modelPath, slots, contextSize, batchSize, ubatchSize, kvCacheType, rope } = settings
  return await stateKey(modelPath, {
    slots,
    contextSize,
    batchSize,
    ubatchSize,
    kvCacheType,
    rope,
    flashAttention: settings.flashAttention,
    placement: settings.placement,
    llamaVersion,
    gpus: await llama.gpuNames(),
    gpuLayers: loaded.gpuLayers,
  })
}

const flagOf = (layout: KvLayout): 'on' | 'off' => (layout === 'pool' ? 'on' : 'off')

/** What was long ago weighs less each time. */
function fading({ counts, shifts }: Load): Load {
  const halves = counts.map(({ shape, steps }) => ({ shape, steps: Math.floor(steps / 2) }))
  return { counts: halves.filter(({ steps }) => steps > 0), shifts }
}

function textOf({ layout, ratio }: LayoutChoice): string {
  const text = layout === 'pool' ? 'one pool of KV cells for all slots' : 'KV cells for each slot'
  if (ratio === undefined) return text
  return `${text}: the steps of its load take ${ratio.toFixed(2)} of what the other layout takes`
}

async function save(path: string, notes: LayoutNotes, logger: Logger): Promise<void> {
  await writeNotes(path, notes).catch((error: unknown) => {
    logger.warn({ path, err: error }, 'the notes on KV layouts cannot be written')
  })
}
