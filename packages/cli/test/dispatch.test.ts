import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import t from 'tap'
import { parse } from 'yaml'
import { dispatch } from '../src/dispatch.js'
import { createLogger } from '../src/logger.js'

const run = async (argv: string[], env: NodeJS.ProcessEnv = {}) => {
  const written = { stdout: '', stderr: '' }
  const into = (name: keyof typeof written) => ({
    write: (text: string) => void (written[name] += text),
  })
  const io = { stdout: into('stdout'), stderr: into('stderr'), env }
  const code = await dispatch(argv, { ...io, signal: new AbortController().signal })
  return { code, ...written }
}

t.test('help and version', async (t) => {
  const { stdout, code } = await run(['--help'])
  t.equal(code, 0)
  for (const name of ['serve', 'config', 'models', 'pull', 'model synth']) {
    t.match(stdout, new RegExp(`^  ${name} `, 'm'))
    const help = await run([...name.split(' '), '--help'])
    t.equal(help.code, 0)
    t.match(help.stdout, `Usage: cllm ${name}`)
    t.equal(help.stderr, '')
  }
  t.same(await run(['help']), await run(['-h']))
  const group = await run(['bench', '--help'])
  t.match(group, { code: 0, stdout: /^Usage: cllm bench <command>/, stderr: '' })
  t.match(group.stdout, /^ {2}bench serve /m)
  t.notMatch(group.stdout, /^ {2}serve /m)
  const { version } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  ) as { version: string }
  t.same(await run(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' })
})

t.test('wrong command lines', async (t) => {
  const nothing = await run([])
  t.match(nothing, { code: 2, stdout: '', stderr: /^Usage: cllm/ })
  const cases: readonly (readonly [string[], string])[] = [
    [['srve', '--port', '1'], 'unknown command srve; did you mean serve?'],
    [['model', 'sinth'], 'unknown command model sinth; did you mean model synth?'],
    [['model'], 'unknown command model; did you mean models?'],
    [['toString'], 'unknown command toString\n'],
    [['config', '--prt', '1'], 'unknown flag --prt; did you mean --port?\n'],
    [['serve', '--slots', '0'], '--slots: expected a whole number from 1 to 256, got 0\n'],
  ]
  for (const [argv, message] of cases) {
    const { code, stdout, stderr } = await run(argv)
    t.equal(code, 2, argv.join(' '))
    t.equal(stdout, '')
    t.ok(stderr.startsWith('error: ') && stderr.includes(message), stderr)
    t.notMatch(stderr, /\n +at /, 'no stack')
  }
})

t.test('cllm config', async (t) => {
  const folder = t.testdir({ 'cllm.yaml': 'server:\n  port: 9\n  num_threads: 8\n' })
  const file = join(folder, 'cllm.yaml')
  const yaml = await run(['config', '--config', file, '--slots', '2'], { CLLM_GPU: 'off' })
  t.equal(yaml.code, 0)
  t.ok(yaml.stdout.includes(`\n  port: 9 # ${file}:2\n`), yaml.stdout)
  t.match(yaml.stdout, /\n {2}slots: 2 # --slots\n/)
  t.match(yaml.stdout, /\n {2}gpu: off # CLLM_GPU\n/)
  t.match(yaml.stdout, /\n {2}host: 127\.0\.0\.1 # default\n/)
  t.match(yaml.stderr, /^warning: .*: server\.num_threads\n$/)

  const json = await run(['config', '--json', '--config', file, '--slots', '2'], {
    CLLM_GPU: 'off',
  })
  const { config, sources } = JSON.parse(json.stdout) as Record<string, Record<string, unknown>>
  t.same(config, parse(yaml.stdout))
  t.equal(sources?.['engine.slots'], '--slots')
})

t.test('the logger', async (t) => {
  const lines = (stream: PassThrough) =>
    String(stream.read() ?? '')
      .split('\n')
      .slice(0, -1)
  const json = new PassThrough()
  const quiet = createLogger({ level: 'warn', file: null }, { isTTY: false, destination: json })
  quiet.info({}, 'not this')
  quiet.warn({ slots: 3 }, 'this')
  const written = lines(json)
  t.equal(written.length, 1)
  t.match(JSON.parse(written[0] ?? ''), { msg: 'this', slots: 3, level: 40 })

  const terminal = new PassThrough()
  const readable = createLogger(
    { level: 'debug', file: null },
    { isTTY: true, destination: terminal },
  )
  readable.debug({}, 'for a person')
  t.match(lines(terminal)[0], /^\S*\[\d\d:\d\d:\d\d\.\d{3}\].*DEBUG.*for a person/)

  const file = join(t.testdir({}), 'logs', 'cllm.log')
  createLogger({ level: 'info', file }, { isTTY: true }).error({}, 'into the file')
  t.match(JSON.parse(readFileSync(file, 'utf8')), { msg: 'into the file', level: 50 })
})

t.test('keys are never logged, and what clients sent only when asked for', (t) => {
  const logged = (content: boolean): string => {
    const stream = new PassThrough()
    const logger = createLogger(
      { level: 'debug', file: null, content },
      { isTTY: false, destination: stream },
    )
    const headers = { authorization: 'KEY', 'x-api-key': 'KEY' }
    logger.info({ headers, req: { headers }, apiKey: 'KEY', config: { api_key: 'KEY' } }, 'a')
    logger.debug({ prompt: 'WORDS', request: { messages: ['WORDS'] }, refusal: 'WORDS' }, 'b')
    return String(stream.read())
  }
  for (const content of [true, false]) t.notMatch(logged(content), 'KEY')
  t.equal(logged(true).split('WORDS').length - 1, 3)
  t.notMatch(logged(false), 'WORDS')
  t.match(logged(false), 'redacted')
  t.end()
})
