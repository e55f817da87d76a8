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
import { type BoundRoute, bindRoutes, type Route } from '../../routes/route.js'
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
    .default(0.05)
    .describe(
      'Share of compute time for batches while clients are always busy; 0: only while no client waits.',
    ),
  fileLimitBytes: z
    .int()
    .min(1)
    .default(100 * 1024 * 1024)
    .describe('Largest size of an uploaded file, in bytes.'),
})

const defaults = optionsSchema.parse({})

/** Settings of {@link batchesProtocol}. */
export interface BatchesProtocolOptions {
  /** The folder for files and batches with prompts and answers, which only the server's user can read. */
  readonly folder?: string
  /** The most lines that are computed at a time; default 8. */
  readonly concurrency?: number
  /** The share of the time for batches while there are always clients, from 0 to 0.5; default 0.05. */
  readonly share?: number
  /** The largest size of an uploaded file; default 100 MiB. */
  readonly fileLimitBytes?: number
  /** The store and queue of several servers together, in place of a folder. */
  readonly shared?: OpenBatches
  /** Protocols; those of OpenAI and Anthropic answer the lines. Default: both with their default settings. */
  readonly lines?: readonly KoaProtocol[]
  /** Resolves once no other process runs the folder's batches; no line is computed before. Default: at once. */
  readonly holdFolder?: HoldFolder
}

const routes = [...fileRoutes, ...batchRoutes, ...messageBatchRoutes].map(
  (route): Route<BatchesContext> => ({ ...route, isAlways: 'loading' }),
)

/**
 * OpenAI's batches (`/v1/files`, `/v1/batches`) and Anthropic's (`/v1/messages/batches`). Their lines are computed
 * while there are no other requests, and leave the engine as soon as one arrives; if there always are some, lines get
 * a share of the time. A batch survives a restart.
 */
export function batchesProtocol({
  folder: path,
  shared,
  concurrency = defaults.concurrency,
  share = defaults.share,
  fileLimitBytes = defaults.fileLimitBytes,
  lines = [openAiProtocol(), anthropicProtocol()],
  holdFolder = async () => ({ lost: new AbortController().signal, isHeld: () => true }),
}: BatchesProtocolOptions): KoaProtocol {
  let throttle: Throttle = unthrottled
  // the other members are set by `start`, which the transport calls before it answers requests
  const own = { fileLimitBytes } as BatchesContext
  return {
    name: 'batches',
    routes: bindRoutes(routes, own),
    errors: openAiErrors,
    observe({ clock }) {
      // Other servers' clients count, too, so the engines make room for clients themselves.
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

/** The routes of batches on a server without them, whose error says how to enable them. */
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

/** {@link batchesProtocol} as a definition. */
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
