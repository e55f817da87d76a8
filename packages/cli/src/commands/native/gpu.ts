import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import {
  binaryPackages,
  findBinary,
  gpuDevices,
  type GpuKind,
  gpuKinds,
} from '@cllm/backend-llamacpp'
import { currentVersions } from '@cllm/backend-llamacpp/native-build'
import { CllmError, silentLogger } from '@cllm/core'
import { gpuFolder } from '../../models/cache-folder.js'
import { progressDisplay } from '../../models/fetch/progress-bar.js'
import { fetchOnce, withPartial } from '../../models/fetch/fetch-once.js'
import { type CommandIo, defineCommand } from '../command.js'
import { toggle, wrong } from '../flags.js'

/** Unpacks a package of npm, named with its version, into a new folder. */
type Unpack = (spec: string, to: string, io: CommandIo) => Promise<void>

const fromNpm: Unpack = async (...asked) =>
  await (await import('../../models/fetch/fetch-npm.js')).unpackNpm(...asked)

/** `cllm gpu add`, from npm unless a third argument says otherwise. */
export const add = defineCommand({
  usage: 'gpu add <kind>',
  doc: `
Fetches llama.cpp's library for a kind of GPU from npm: cuda (NVIDIA) or vulkan. \`cllm serve\` uses
it from the next start on. On Macs with Apple's processors, metal comes with cllm.`,
  flags: { 'dry-run': toggle('Print what would be fetched, and where to') },
  async run({ flags, words: [word] }, io, unpack: Unpack = fromNpm) {
    const kind = gpuKinds().find((one) => one === word)
    if (kind === undefined) {
      const expected = gpuKinds().join(' or ') || 'no kind, as this machine has none'
      throw wrong(`gpu add: expected ${expected}, got ${word}`)
    }
    const folder = gpuFolder(io)
    const present = findBinary(kind, folder)
    if (present !== undefined) {
      io.stdout.write(`${present.file} is here\n${await devicesOf(kind, folder)}\n`)
      return
    }
    const { nodeLlamaCppVersion: version } = currentVersions
    const specs = binaryPackages(kind).map((name) => `${name}@${version}`)
    io.stdout.write(`${specs.join(' and ')} from npm, into ${folder}\n`)
    if (flags['dry-run']) return
    await fetchInto(folder, kind, specs, io, unpack)
    io.stdout.write(`${await devicesOf(kind, folder)}\n`)
  },
})

/**
 * Fetches the packages into a folder, unless another process has. The first one, by which they are found, comes last.
 */
async function fetchInto(
  folder: string,
  kind: GpuKind,
  specs: readonly string[],
  io: CommandIo,
  unpack: Unpack,
): Promise<void> {
  const path = join(folder, 'add')
  const options = {
    cacheFolder: folder,
    signal: io.signal,
    onProgress: progressDisplay(io.stdout).show,
  }
  const find = async () => findBinary(kind, folder)?.file
  try {
    await fetchOnce(path, `the library for ${kind}`, options, find, async ({ signal }) => {
      for (const spec of specs.toReversed()) {
        const target = join(folder, 'node_modules', spec.slice(0, spec.lastIndexOf('@')))
        await withPartial(path, async (work) => {
          const whole = join(work, 'package') // with the usual permissions, which `work` has not
          await mkdir(whole)
          await unpack(spec, whole, { ...io, signal })
          signal.throwIfAborted()
          await mkdir(dirname(target), { recursive: true })
          await rm(target, { recursive: true, force: true })
          await rename(whole, target)
        })
      }
      return folder
    })
  } catch (cause) {
    io.signal.throwIfAborted()
    const names = specs.join(' ')
    const message = `${names} cannot be fetched into ${folder}: ${(cause as Error).message}`
    const advice = `where cllm is installed, run: npm install ${names}`
    throw new CllmError('native_build_failed', `${message}; ${advice}`, { cause })
  }
}

/** The devices that a library finds, or why it cannot be used, as when an image is made on another machine. */
async function devicesOf(kind: GpuKind, folder: string): Promise<string> {
  try {
    const devices = await gpuDevices(kind, silentLogger, folder)
    return `it finds ${devices?.names.join(', ')}`
  } catch (error) {
    return (error as Error).message
  }
}

/** `cllm gpu remove` */
export const remove = defineCommand({
  usage: 'gpu remove',
  doc: `
Deletes what \`cllm gpu add\` has fetched.`,
  flags: {},
  async run(_, io) {
    const folder = gpuFolder(io)
    const isThere = existsSync(folder)
    await rm(folder, { recursive: true, force: true })
    io.stdout.write(isThere ? `deleted ${folder}\n` : `there is no ${folder}\n`)
  },
})
