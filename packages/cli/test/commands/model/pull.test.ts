import { open, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { CommandIo, RunCommand } from '../../../src/commands/command.js'
import { run as synth } from '../../../src/commands/model/model-synth.js'
import { models, pull } from '../../../src/commands/model/downloads.js'

async function execute(run: RunCommand, argv: string[], env: NodeJS.ProcessEnv = process.env) {
  const written = { stdout: '', stderr: '' }
  const io: CommandIo = {
    stdout: { write: (text) => (written.stdout += text) },
    stderr: { write: (text) => (written.stderr += text) },
    env,
    signal: new AbortController().signal,
  }
  return { code: await run(argv, io), ...written }
}

t.test('cllm pull, with the real stories15m in the user cache', async (t) => {
  const { code, stdout } = await execute(pull, ['stories15m'])
  t.equal(code, 0)
  const path = stdout.trimEnd()
  t.match(path, /stories15m-q8_0\.gguf$/)
  const { size } = await stat(path)
  t.ok(size > 16_800_000 && size < 17_000_000, `converted to Q8_0: ${size} bytes`)
  const file = await open(path)
  const { buffer } = await file.read(Buffer.alloc(8), 0, 8, 0)
  await file.close()
  t.same([buffer.toString('latin1', 0, 4), buffer.readUInt32LE(4)], ['GGUF', 3])
  t.same(await execute(pull, ['stories15m']), { code: 0, stdout, stderr: '' }, 'silent when here')

  const listed = await execute(models, ['--json'])
  t.match(
    JSON.parse(listed.stdout).find(({ name }: { name: string }) => name === 'stories15m'),
    { present: true, bytes: size, path, licence: 'MIT' },
  )
  const elsewhere = { CLLM_CACHE: t.testdir({}) }
  t.match(await execute(models, [], elsewhere), { code: 0, stdout: elsewhere.CLLM_CACHE })

  const folder = t.testdir({ 'cllm.yaml': 'models: { cache: here }\nserver: { port: 1 }\n' })
  const yaml = join(folder, 'cllm.yaml')
  const here = join(folder, 'here')
  const env = { ...process.env, CLLM_CACHE: '' }
  t.match(await execute(models, ['--config', yaml], env), { stdout: `in ${here}\n` })
  t.match(await execute(models, [], { ...env, CLLM_CONFIG: yaml }), { stdout: `in ${here}\n` })
  t.match(await execute(models, ['--config', yaml], elsewhere), { stdout: elsewhere.CLLM_CACHE })
  await t.rejects(execute(pull, ['stories15m', '--config', join(folder, 'none.yaml')]), {
    code: 'invalid_configuration',
    message: /none\.yaml/,
  })
})

t.test('cllm pull from the model source of a plug-in', async (t) => {
  const source = `{ async fetch(name, { onProgress }) {
    onProgress(4, 4)
    return { path: new URL(name, import.meta.url).pathname }
  } }`
  const plugin = `{ name: 'shelf', apiVersion: 1,
    register: (host) => host.provide(MODEL_SOURCE, 'shelf', () => (${source})) }`
  const core = import.meta.resolve('@cllm/core')
  const folder = t.testdir({
    'shelf.mjs': `import { MODEL_SOURCE } from '${core}'\nexport default ${plugin}`,
    'cat.gguf': 'GGUF, as far as its beginning tells',
    'cat.txt': 'words',
    'cllm.yaml': 'plugins: [./shelf.mjs]\n',
    'other.yaml': 'plugins: [./shelf.mjs]\nengine: { backend: ngram }\n',
    'broken.yaml': 'plugins: [./none.mjs]\n',
  })
  const at = (name: string) => join(folder, name)
  const pulled = { code: 0, stdout: `${at('cat.gguf')}\n` }
  t.match(await execute(pull, ['shelf:cat.gguf', '--plugin', at('shelf.mjs')]), pulled)
  t.match(await execute(pull, ['shelf:cat.gguf', '--config', at('cllm.yaml')]), pulled)
  const env = { ...process.env, CLLM_PLUGINS: at('shelf.mjs') }
  t.match(await execute(pull, ['shelf:cat.gguf'], env), pulled)
  await t.rejects(execute(pull, ['shelf:cat.txt'], env), { code: 'model_invalid' })
  const words = await execute(pull, ['shelf:cat.txt', '--config', at('other.yaml')])
  t.equal(words.stdout, `${at('cat.txt')}\n`, 'another backend reads other files')
  await t.rejects(execute(pull, ['shelf:cat.gguf']), {
    code: 'model_unavailable',
    message: /no plug-in provides the model source "shelf"/,
  })
  const broken = ['--config', at('broken.yaml')]
  await t.rejects(execute(pull, ['shelf:cat.gguf', ...broken]), { code: 'plugin_not_found' })
  t.match(await execute(pull, ['stories15m', ...broken]), { code: 0 }, 'needs no plug-in')
})

t.test('cllm model synth', async (t) => {
  const folder = t.testdir({})
  const write = async (name: string, ...more: string[]) => {
    const out = join(folder, name)
    t.equal((await execute(synth, ['--like', 'tiny', '--out', out, ...more])).code, 0)
    return await readFile(out)
  }
  const first = await write('a.gguf')
  t.ok(first.length < 2_000_000)
  t.equal(first.toString('latin1', 0, 4), 'GGUF')
  t.ok(first.equals(await write('b.gguf', '--seed', '0')))
  t.notOk(first.equals(await write('c.gguf', '--seed', '1')))
  // Node makes folders in /proc for ever.
  for (const out of [folder, '/proc/none/a.gguf']) {
    const taken = execute(synth, ['--like', 'tiny', '--out', out])
    await t.rejects(taken, { message: /^--out: expected a file that can be written, got "\// })
  }
})

t.test('wrong command lines', async (t) => {
  const wrong: [RunCommand, string[], RegExp][] = [
    [pull, [], /<model> is missing: cllm pull <model>; --help says more/],
    [pull, ['a', 'b'], /unexpected argument "b"/],
    [models, ['--jso'], /unknown flag --jso; did you mean --json\?/],
    [models, ['-x'], /unknown flag -x/],
    [models, ['--json=yes'], /--json/],
    [synth, ['--out', 'x'], /--like is missing: expected one of qwen3-0\.6b, /],
    [synth, ['--like', 'tiny'], /--out is missing/],
    [synth, ['--like'], /--like/],
    [synth, ['--like', 'llama', '--out', 'x'], /"llama": expected one of qwen3-0\.6b, qwen3-8b, /],
    [synth, ['--like', 'tiny', '--out', 'x', '--seed', '1.5'], /--seed: .*got "1\.5"/],
  ]
  for (const [run, argv, message] of wrong) {
    await t.rejects(execute(run, argv), { code: 'invalid_configuration', message })
  }
  await t.rejects(execute(pull, ['nothing-like-it']), { code: 'model_unavailable' })
  for (const run of [pull, models, synth]) {
    t.match(await execute(run, ['--help', '--wrong']), { code: 0, stdout: /^Usage: cllm / })
  }
})
