// Where CLLM_MEDIA_LIBRARY names a libmtmd, the files go through a real encoder, too.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CllmError, systemClock } from '@cllm/core'
import { writeSyntheticProjector } from '@cllm/gguf'
import t from 'tap'
import { checkHead } from '../../src/media/file-head.js'
import { FileEncoder } from '../../src/media/file-encoder.js'
import { recordingLogger, tinyModel } from '../open-tiny.js'
import { hostileFiles } from './hostile-files.js'

const seed = Number(process.env['FAST_CHECK_SEED'] ?? 1)
const files = hostileFiles(500, seed)

t.test('of 500 hostile files the most are refused by their heads', async (t) => {
  let refused = 0
  for (const { name, type, file } of files) {
    try {
      checkHead(type, file)
    } catch (error) {
      refused++
      if (!CllmError.isInstance(error) || error.code !== 'invalid_media') t.fail(name, { error })
    }
  }
  t.ok(refused > 250, `${refused} of ${files.length}`)
})

const library = process.env['CLLM_MEDIA_LIBRARY']
t.test('the others are encoded, or refused', { skip: library === undefined }, async (t) => {
  const modelPath = await tinyModel(t)
  for (const [kind, type] of [
    ['mlp', 'image'],
    ['qwen2vl_merger', 'image'],
    ['ultravox', 'audio'],
  ] as const) {
    const mmprojPath = join(t.testdirName, `${kind}.gguf`)
    await writeSyntheticProjector({ out: mmprojPath, kind, width: 64 })
    const logger = recordingLogger()
    const sizes = { width: 64, vocabularySize: 768, atOnce: 512, cacheBytes: 1e6, threads: 1 }
    const encoder = new FileEncoder(
      { library: library!, modelPath, mmprojPath, ...sizes },
      logger,
      systemClock,
    )
    t.teardown(() => encoder.dispose())
    await encoder.open()
    let encoded = 0
    for (const { name, file } of files.filter((file) => file.type === type)) {
      try {
        const job = await encoder.prepare({ type, data: file.toString('base64') }, undefined)
        if ('run' in job) await job.run(new AbortController().signal)
        encoded++
      } catch (error) {
        t.match(error, { code: 'invalid_media' }, `${kind}: ${name}`)
      }
    }
    t.comment(`${kind}: ${encoded} encoded, at most ${mostMemory(encoder.pid)} MB`)
    t.same(logger.lines, [], 'none has ended the process')
  }
})

function mostMemory(pid: number | undefined): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024)
}
