import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '@cllm/core'
import type { HoldFolder } from '@cllm/http-koa'
import { takeFileLock } from '../models/fetch/file-lock.js'

/** Milliseconds without a sign of life after which a process counts as dead. */
const staleMs = 10_000
/** Milliseconds between two looks whether the other process has ended. */
const lookMs = 500

/**
 * Keeps a folder until this process ends, so that two servers, such as the old and the new one of a restart, do
 * not both compute its batches. Waits for as long as another process has it, or the file system fails, without keeping
 * this one alive. The signal fires when another process has taken it over, as this one stood still for 10 s.
 */
export const holdFolders =
  (logger: Logger): HoldFolder =>
  async (folder) => {
    let problem: string | undefined
    const take = async (): Promise<AbortSignal | undefined> => {
      const lost = new AbortController()
      const onLost = (cause: Error): void => {
        logger.error({ folder, err: cause }, 'another server took over the batches')
        lost.abort(cause)
      }
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 })
        const release = await takeFileLock(join(folder, '.lock'), { staleMs, onLost })
        return release === undefined || lost.signal.aborted ? undefined : lost.signal
      } catch (error) {
        const { message } = error as Error
        // It is looked twice a second.
        if (message !== problem) logger.error({ folder, err: error }, 'the batches cannot be kept')
        problem = message
        return undefined
      }
    }
    let signal = await take()
    if (signal !== undefined) return signal
    if (problem === undefined) {
      const message = 'another server has the batches; this one computes none until it ends'
      logger.warn({ folder }, message)
    }
    do await delay(lookMs, undefined, { ref: false })
    while ((signal = await take()) === undefined)
    logger.info({ folder }, 'the batches are computed here now')
    return signal
  }
