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
 * not both compute its batches. Waits for as long as another process has it, without keeping this one alive.
 */
export const holdFolders =
  (logger: Logger): HoldFolder =>
  async (folder) => {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const onLost = (cause: Error): void =>
      logger.error({ folder, err: cause }, 'another server took over the batches')
    const take = async () => await takeFileLock(join(folder, '.lock'), { staleMs, onLost })
    if ((await take()) !== undefined) return
    logger.warn({ folder }, 'another server has the batches; this one computes none until it ends')
    do await delay(lookMs, undefined, { ref: false })
    while ((await take()) === undefined)
    logger.info({ folder }, 'the batches are computed here now')
  }
