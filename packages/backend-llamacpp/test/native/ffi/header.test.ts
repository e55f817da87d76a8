// slow: reads llama.cpp's headers out of its git bundle, 2 s
import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import t from 'tap'
import {
  deviceFunctions,
  ggmlFunctions,
  llamaFunctions,
  mediaFunctions,
  registryFunctions,
} from '../../../src/native/ffi/functions.js'
import { structs } from '../../../src/native/ffi/structs.js'

const headers = [
  'include/llama.h',
  ...['ggml', 'ggml-backend', 'ggml-cpu'].map((name) => `ggml/include/${name}.h`),
  ...['mtmd', 'mtmd-helper'].map((name) => `tools/mtmd/${name}.h`),
]
const root = dirname(dirname(createRequire(import.meta.url).resolve('node-llama-cpp')))
const bundle = join(root, 'llama', 'gitRelease.bundle')

/** The headers of the llama.cpp that node-llama-cpp's libraries were built from, without comments. */
function readHeaders(folder: string): string {
  const repository = join(folder, 'source.git')
  execFileSync('git', ['clone', '--quiet', '--bare', bundle, repository], { stdio: 'pipe' })
  const read = (path: string) =>
    execFileSync('git', ['-C', repository, 'show', `HEAD:${path}`], { encoding: 'utf8' })
  return headers
    .map(read)
    .join('\n')
    .replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')
}

/** Our name of a C type. */
function nameOf(type: string): string {
  const plain = type
    .replaceAll(/\b(const|struct|enum)\b/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim()
  if (/^char ?\*$/.test(plain)) return 'string'
  if (/\*|_t$/.test(plain) && !/^u?int\d+_t$|^size_t$/.test(plain)) return 'pointer'
  const known: Record<string, string> = {
    int: 'int32',
    llama_token: 'int32',
    llama_pos: 'int32',
    llama_seq_id: 'int32',
    llama_state_seq_flags: 'uint32',
    ggml_abort_callback: 'pointer',
    ggml_log_callback: 'pointer',
    ggml_backend_sched_eval_callback: 'pointer',
    llama_progress_callback: 'pointer',
    mtmd_progress_callback: 'pointer',
  }
  if (known[plain] !== undefined) return known[plain]
  if (
    /^((?:llama|mtmd)_\w+_type|llama_\w+_mode|llama_token_attr|ggml_type|ggml_sched_priority|ggml_backend_dev_type)$/.test(
      plain,
    )
  )
    return 'int32'
  return plain.replace(/^(u?int\d+)_t$/, '$1')
}

/** A parameter or field without its name. */
const typeOf = (declaration: string) => nameOf(declaration.replace(/\w+\s*$/, ''))

/** What a struct holds, and what the structs in it do. */
function membersOf(source: string, struct: string): string[] {
  const body = new RegExp(`struct ${struct} \\{([^}]*)\\}`).exec(source)?.[1] ?? ''
  const members = body.split(';').map((field) => field.trim())
  return members
    .filter((field) => field !== '')
    .flatMap((field) => {
      const [, inner] = /^struct (\w+) \w+$/.exec(field) ?? []
      return inner === undefined ? [field] : membersOf(source, inner)
    })
}

/** A text may be passed as bytes. */
const isSame = (found: string, ours: string) =>
  found === ours || (found === 'string' && ours === 'pointer')

t.test('the C API that is bound is that of the package', async (t) => {
  try {
    execFileSync('git', ['--version'], { stdio: 'pipe' })
  } catch {
    t.pass('skipped: there is no git to read the source bundle with')
    return
  }
  const source = readHeaders(t.testdir())
  for (const [name, fields] of Object.entries(structs)) {
    const found = membersOf(source, name).map((field) => {
      const [, type, list] = /^(.*?)(\w+)\s*\[\w+\]$/.exec(field) ?? []
      if (list !== undefined) return [list, `${nameOf(type!)}[512]`]
      return [/(\w+)\s*$/.exec(field)![1]!, typeOf(field)]
    })
    t.same(found, Object.entries(fields), name)
  }
  const tables = {
    ...llamaFunctions,
    ...ggmlFunctions,
    ...registryFunctions,
    ...deviceFunctions,
    ...mediaFunctions,
  }
  for (const [name, [result, ...args]] of Object.entries<readonly string[]>(tables)) {
    const found = new RegExp(
      `(?:LLAMA_API|GGML_API|GGML_BACKEND_API|MTMD_API)\\s+([\\w\\s*]*?)\\b${name}\\s*\\(([^)]*)\\)`,
    ).exec(source)
    t.ok(found, `${name} is declared`)
    if (found === null) continue
    const parameters = found[2]!.split(',').map((parameter) => parameter.trim())
    const types = parameters.filter((one) => one !== '' && one !== 'void').map(typeOf)
    t.equal(
      isSame(nameOf(found[1]!), result!),
      true,
      `${name} returns ${result}, got ${nameOf(found[1]!)}`,
    )
    t.equal(types.length, args.length, `${name} has ${args.length} parameters`)
    for (const [index, type] of types.entries()) {
      t.ok(isSame(type, args[index]!), `${name}: parameter ${index} is ${args[index]}, got ${type}`)
    }
  }
})
