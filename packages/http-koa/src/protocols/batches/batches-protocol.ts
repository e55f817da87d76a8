import { CllmError, defined, type Random, type Services } from '@cllm/core'
import { z } from 'zod'
import { openAiProtocol } from '../openai/openai-protocol.js'
import { openAiErrors } from '../openai/openai-answer.js'
import {
  defineProtocol,
  HOLD_FOLDER,
  type HoldFolder,
  PROTOCOLS,
  SHARED_BATCHES,
  ownFolder,
} from '../../routes/define-protocol.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { type BoundRoute, bindRoutes } from '../../routes/route.js'
import { BatchFolder } from './batch-folder.js'
import { BatchRunner } from './batch-runner.js'
import { openFolder } from './folder-queue.js'
import { anthropicProtocol } from '../anthropic/anthropic-protocol.js'
import { messageBatchRoutes } from './message-batches.js'
import { batchRoutes, type BatchesContext } from './batch-routes.js'
import { fileRoutes } from './file-routes.js'
import { lineSender } from './batch-lines.js'
import type { OpenBatches } from './batch-store.js'
import { BatchThrottle, type Throttle, unthrottled } from './batch-throttle.js'
import { yieldingEngines } from './yielding-engines.js'

/** Of the time, while clients never stop. */
const defaultShare = 0.05

const optionsSchema = z.strictObject({
  folder: z
    .string()
    .min(1)
    .optional()
    .describe('Folder for files and batches; unset: there are none.'),
  concurrency: z.int().min(1).default(8).describe('How many lines are computed at a time.'),
  share: z
    .number()
    .min(0)
    .max(0.5)
    .default(defaultShare)
    .describe(
      'Share of compute time for batches while clients are always busy; 0: only while no client waits.',
    ),
  fileLimitBytes: z
    .int()
    .min(1)
    .default(100 * 1024 * 1024)
    .describe('Largest size of an uploaded file, in bytes.'),
})

/** Settings of {@link batchesProtocol}. */
export interface BatchesProtocolOptions {
  /** Where files and batches are kept: prompts and answers, readable by the server's user alone. */
  readonly folder?: string
  /** Lines that are computed at a time; default 8. */
  readonly concurrency?: number
  /** Of the time that batches get on a server where clients never stop, from 0 to 0.5; default 0.05. */
  readonly share?: number
  /** Default 100 MiB. */
  readonly fileLimitBytes?: number
  /** What keeps and runs the batches of several servers together; instead of a folder of this one's. */
  readonly shared?: OpenBatches
  /** Those of OpenAI and Anthropic among them answer the lines; default: with their own defaults. */
  readonly lines?: readonly KoaProtocol[]
  /** Resolves when no other process runs what is in the folder; until then no line is computed. Default: at once. */
  readonly holdFolder?: HoldFolder
}

const routes = [...fileRoutes, ...batchRoutes, ...messageBatchRoutes]

/**
 * OpenAI's batches (`/v1/files`, `/v1/batches`) and Anthropic's (`/v1/messages/batches`): lines of a file that are
 * computed while no client waits for anything else, and leave the engine as soon as one does; where clients never stop,
 * in a share of the time. A batch survives a restart.
 */
export function batchesProtocol({
  folder: path,
  shared,
  concurrency = 8,
  share = defaultShare,
  fileLimitBytes = 100 * 1024 * 1024,
  lines = [openAiProtocol(), anthropicProtocol()],
  holdFolder = async () => ({ lost: new AbortController().signal, isHeld: () => true }),
}: BatchesProtocolOptions): KoaProtocol {
  let throttle: Throttle = unthrottled
  // the transport starts its protocols before it answers
  const own = { fileLimitBytes } as BatchesContext
  return {
    name: 'batches',
    routes: bindRoutes(routes, own),
    errors: openAiErrors,
    observe({ clock }) {
      // Clients of other servers count as well: the engines themselves make room for them.
      if (shared !== undefined) return []
      return [(throttle = new BatchThrottle({ clock, share }))]
    },
    start(directory, context) {
      const { clock, random, logger, access } = context
      const enginesOf = (seeds: Random) =>
        yieldingEngines(directory, throttle, { clock, random: seeds })
      const answering = lines.filter(({ name }) => name === 'openai' || name === 'anthropic')
      const send = lineSender(answering, enginesOf, context, access)
      const open = shared ?? inFolder(path, holdFolder, context)
      const runner = new BatchRunner({ ...open, send, clock, random, logger, concurrency })
      Object.assign(own, { store: open.store, runner })
      void runner.resume().catch((error: unknown) => {
        logger.error({ err: error }, 'batches cannot be run')
      })
    },
  }
}

/** Says at the routes of batches what would serve them. */
const refusing: readonly BoundRoute[] = routes.map(({ body: _body, query: _query, ...route }) => ({
  ...route,
  isHidden: true,
  handle() {
    const message = 'This server keeps no files for batches; --batches FOLDER makes it do so'
    throw new CllmError('not_found', message)
  },
}))

function inFolder(path: string | undefined, holdFolder: HoldFolder, { clock, logger }: Services) {
  if (path === undefined) {
    throw new CllmError('invalid_configuration', 'batches: a folder for them is missing')
  }
  ownFolder(path, 'batches')
  const hold = async () => await holdFolder(path)
  return openFolder(new BatchFolder(path), { clock, logger, hold })
}

/** {@link batchesProtocol} by its name. */
export const batches = defineProtocol({
  name: 'batches',
  doc: "OpenAI's and Anthropic's batches and their files under `/v1`, where a folder for them is set.",
  options: optionsSchema,
  create({ folder, ...options }, services) {
    const shared = services.get(SHARED_BATCHES)
    if (folder === undefined && shared === undefined)
      return { name: 'batches', routes: refusing, errors: openAiErrors }
    const lines = services.get(PROTOCOLS)
    const holdFolder = services.get(HOLD_FOLDER)
    const where = shared === undefined ? { folder } : { shared }
    return batchesProtocol(defined({ ...where, ...options, lines, holdFolder }))
  },
})
