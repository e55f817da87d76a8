import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '@cllm/core'
import type { FolderHold, HoldFolder } from '@cllm/http-koa'
import { takeFileLock } from '../models/fetch/file-lock.js'

/** Milliseconds without a sign of life after which a process counts as dead. */
const staleMs = 10_000
/** Milliseconds between two checks whether the other process has ended. */
const lookMs = 500

/**
 * Holds a folder until this process ends, so that two servers, such as the old and the new one of a restart, do not
 * both compute its batches. Waits while another process holds it, or the file system fails, without keeping this one
 * alive. The hold is lost when another process takes over because this one stood still for 10 s.
 */
export const holdFolders =
  (logger: Logger, pause = delay): HoldFolder =>
  async (folder) => {
    let problem: string | undefined
    const take = async (): Promise<FolderHold | undefined> => {
      const lost = new AbortController()
      const onLost = (cause: Error): void => {
        const isGone = (cause as NodeJS.ErrnoException).code === 'ENOENT' && !existsSync(folder)
        const what = isGone ? 'the folder was removed' : 'another server took over'
        logger.error({ folder, err: cause }, `the batches are lost: ${what}`)
        lost.abort(cause)
      }
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 })
        const lock = await takeFileLock(join(folder, '.lock'), { staleMs, onLost })
        if (lock === undefined || lost.signal.aborted) return undefined
        return { lost: lost.signal, isHeld: () => lock.isHeld() }
      } catch (error) {
        const { code = 'failed' } = error as NodeJS.ErrnoException
        // Tried twice a second, but logged once. Codes are compared, as messages have new names each time.
        if (code !== problem) logger.error({ folder, err: error }, 'the batches cannot be kept')
        problem = code
        return undefined
      }
    }
    let hold = await take()
    if (hold !== undefined) return hold
    if (problem === undefined) {
      const message = 'another server has the batches; this one computes none until it ends'
      logger.warn({ folder }, message)
    }
    do await pause(lookMs, undefined, { ref: false })
    while ((hold = await take()) === undefined)
    logger.info({ folder }, 'the batches are computed here now')
    return hold
  }
