import { spawnSync } from 'node:child_process'
import fs, {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { silentLogger } from '@cllm/core'
import { protocolsPlugin } from '@cllm/http-koa'
import t from 'tap'
import type { CommandIo } from '../../src/commands/command.js'
import { loadConfig } from '../../src/config/load-config.js'
import { CrashFiles } from '../../src/engine/engine-files.js'
import { openMemoryFolder } from '../../src/engine/memory-folder.js'
import { servedPool } from '../../src/models/served/served-pool.js'
import { loadRegistry } from '../../src/plugins/load-registry.js'

const dying = `require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'))`

const onLinux = { skip: process.platform === 'linux' ? false : 'others have no such folder' }

t.test(
  'a server has a folder in memory, and removes what those that died have left',
  onLinux,
  async (t) => {
    // The paths of sockets have to be short.
    const memory = mkdtempSync(join(tmpdir(), 'cllm-memory-'))
    t.teardown(() => rmSync(memory, { recursive: true }))
    writeFileSync(join(memory, 'other'), 'file')
    const left = join(memory, 'cllm-states-left')
    mkdirSync(join(left, 'more'), { recursive: true })
    spawnSync(process.execPath, ['-e', dying, `${left}.sock`])
    t.ok(existsSync(`${left}.sock`))
    mkdirSync(join(memory, 'cllm-states-begun'))
    const other = openMemoryFolder(memory)!
    const states = openMemoryFolder(memory)!
    const names = [other, states].map(({ folder }) => folder.slice(memory.length + 1))
    const kept = [...names, ...names.map((name) => `${name}.sock`), 'other'].sort()
    while (readdirSync(memory).length > kept.length) await turn()
    t.same(readdirSync(memory).sort(), kept)
    t.equal(statSync(states.folder).mode & 0o777, 0o700)
    states.remove()
    other.remove()
    t.same(readdirSync(memory), ['other'])
    t.equal(openMemoryFolder(join(memory, 'none')), undefined)
  },
)

t.test('where its folder cannot be made, nothing stays', onLinux, (t) => {
  const memory = mkdtempSync(join(tmpdir(), 'cllm-memory-'))
  const make = t.capture(fs, 'mkdirSync', () => {
    t.match(readdirSync(memory), [/^cllm-states-.*\.sock$/], 'its socket is there')
    throw new Error('ENOSPC')
  })
  syncBuiltinESMExports()
  const states = openMemoryFolder(memory)
  make.restore()
  syncBuiltinESMExports()
  t.equal(states, undefined)
  t.same(readdirSync(memory), [])
  rmSync(memory, { recursive: true })
  t.end()
})

t.test('a server whose models are wrong makes none', async (t) => {
  const registry = await loadRegistry([], '.', [protocolsPlugin])
  const argv = ['--model', 'a=stories15m', '--model', 'b=nonsense']
  const make = t.capture(fs, 'mkdirSync')
  syncBuiltinESMExports()
  const logger = silentLogger
  const parts = { registry, logger, crashes: new CrashFiles(t.testdirName, logger) }
  const serve = () => servedPool(loadConfig({ argv, env: {} }), { env: {} } as CommandIo, parts)
  t.throws(serve, { code: 'model_unavailable' })
  const made = make().flatMap(({ args }) => String(args[0]))
  make.restore()
  syncBuiltinESMExports()
  t.same(
    made.filter((folder) => folder.includes('cllm-states-')),
    [],
  )
})
