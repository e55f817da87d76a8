import { createRequire } from 'node:module'
import type * as Yaml from 'yaml'
import { readData } from './paths.js'
import { decimal, integer, type ValueFormat, accepts } from './options/value-format.js'
import { describeValue, suggestion } from './messages.js'
import { options } from './options/schema.js'
import type { Layer, Setting } from './layers.js'

/** A key of the original C++ server that sets an option. */
interface MappedKey {
  /** The option that it sets. */
  readonly path: string
  /** The values that the original accepts, if they differ from the option's. */
  readonly format?: ValueFormat<number>
  readonly convert?: (value: never) => unknown
}

const zeroToAuto = (count: number) => (count === 0 ? 'auto' : count)
const toSeconds = (milliseconds: number) => milliseconds / 1000

/**
 * The original's keys that set an option with another name. If several keys set the same option,
 * the option's own key wins, then the first of these.
 */
export const mappedKeys: ReadonlyMap<string, MappedKey> = new Map<string, MappedKey>([
  ['model.path', { path: 'model.spec' }],
  ['model.max_context_length', { path: 'engine.ctx_size' }],
  ['model.default_max_tokens', { path: 'api.defaults.max_tokens' }],
  ['model.temperature', { path: 'api.defaults.temperature' }],
  ['model.top_k', { path: 'api.defaults.top_k' }],
  ['model.top_p', { path: 'api.defaults.top_p' }],
  ['backend.llama_cpp.n_batch', { path: 'engine.batch_size' }],
  [
    'backend.llama_cpp.n_threads',
    { path: 'engine.threads', format: integer(0, 512), convert: zeroToAuto },
  ],
  ['backend.llama_cpp.n_gpu_layers', { path: 'engine.gpu_layers' }],
  ['backend.llama_cpp.n_seq_max', { path: 'engine.slots' }],
  ['backend.llama_cpp.use_mmap', { path: 'engine.mmap' }],
  ['backend.llama_cpp.use_mlock', { path: 'engine.mlock' }],
  ['queue.max_size', { path: 'scheduler.max_queued_requests' }],
  [
    'http.timeout_ms',
    {
      path: 'scheduler.request_timeout',
      format: decimal(0, Infinity, 'milliseconds'),
      convert: toSeconds,
    },
  ],
])

/** The original's keys that have no effect. */
export const ignoredKeys: ReadonlySet<string> = new Set(
  Object.entries(readData('ignored-keys') as Readonly<Record<string, readonly string[]>>).flatMap(
    ([section, keys]) => keys.map((key) => `${section}.${key}`),
  ),
)

/** Whether an ignored key asks for the behaviour that this server always has. */
const isAlreadySo = (key: string, value: unknown): boolean =>
  key === 'backend.type' && (value === '' || value === 'llama_cpp')

const load = createRequire(import.meta.url)
/** Loaded only if there is a file: `yaml` has as many modules as this whole command. */
const yaml = (): typeof Yaml => load('yaml') as typeof Yaml

/** A key of the file with its value. */
interface YamlEntry {
  /** Such as `backend.llama_cpp.n_batch`. */
  readonly key: string
  readonly value: unknown
  readonly line: number
}

const keys: readonly string[] = [
  ...options.map((option) => option.path),
  ...mappedKeys.keys(),
  ...ignoredKeys,
]
const known = new Set(keys)
const modelsPrefix = 'models.'
const isSection = (name: string) => keys.some((key) => key.startsWith(`${name}.`))

/** The valid names in this section. */
const namesIn = (prefix: string) =>
  new Set(
    keys
      .filter((key) => key.startsWith(prefix))
      .map((key) => prefix + key.slice(prefix.length).split('.', 1)[0]),
  )

/** Reads the known keys of a YAML file, and the problems with the others. */
class YamlReader {
  readonly entries: YamlEntry[] = []
  readonly problems: string[] = []
  #models: Record<string, unknown> | undefined
  readonly #lines = new (yaml().LineCounter)()
  readonly #document: Yaml.Document.Parsed

  /** @param file - its name in messages */
  constructor(
    text: string,
    private readonly file: string,
  ) {
    this.#document = yaml().parseDocument(text, { lineCounter: this.#lines, prettyErrors: false })
  }

  read(): this {
    const { errors, contents } = this.#document
    for (const { message, pos } of errors) {
      const { line, col } = this.#lines.linePos(pos[0])
      this.problems.push(`${this.file}:${line}:${col}: ${message}`)
    }
    yaml().visit(this.#document, {
      Alias: (_key, node) => {
        if (node.resolve(this.#document) !== undefined) return
        this.#problem(node, `expected an alias of an anchor before it, got *${node.source}`)
      },
      Scalar: (_key, node) => {
        if (typeof node.value !== 'number' || Number.isFinite(node.value)) return
        this.#problem(node, `expected a finite number, got ${node.source}`)
      },
    })
    if (this.problems.length === 0) this.#section(contents, '')
    return this
  }

  #section(node: Yaml.Node | null, prefix: string): void {
    const map = yaml().isAlias(node) ? node.resolve(this.#document) : node
    if (map === undefined || map === null || (yaml().isScalar(map) && map.value === null)) return
    if (!yaml().isMap(map)) {
      const expected = `${prefix.replace(/\.$/, ': ')}expected keys with their values`
      return this.#problem(node, `${expected}, got ${describeValue(map.toJS(this.#document))}`)
    }
    for (const { key, value } of map.items) {
      const name = yaml().isScalar(key) ? String(key.value) : describeValue(key)
      this.#entry(key as Yaml.Node, `${prefix}${name}`, value as Yaml.Node | null)
    }
  }

  #entry(at: Yaml.Node, key: string, node: Yaml.Node | null): void {
    if (known.has(key)) {
      this.entries.push({ key, value: node?.toJS(this.#document) ?? null, line: this.#line(at) })
    } else if (this.#isModel(key, node)) {
      const name = key.slice(modelsPrefix.length)
      this.#model(at, name, node?.toJS(this.#document))
    } else if (isSection(key)) {
      this.#section(node, `${key}.`)
    } else {
      const prefix = key.slice(0, key.lastIndexOf('.') + 1)
      // a flag's name: `cache_disk` for `cache.disk`
      const flag = key.slice(prefix.length).replaceAll('_', '-')
      const path = options.find((option) => option.flag === flag)?.path
      const near = suggestion(key, namesIn(prefix)) || suggestion(key, keys)
      const meant = path === undefined ? near : `; did you mean ${path}?`
      this.#problem(at, `unknown key ${key}${meant}`)
    }
  }

  /** In `models`, every key that is neither an option nor a likely typo of one names a model. */
  #isModel(key: string, node: Yaml.Node | null): boolean {
    if (!key.startsWith(modelsPrefix)) return false
    return yaml().isMap(node) || suggestion(key, namesIn(modelsPrefix)) === ''
  }

  #model(at: Yaml.Node, name: string, value: unknown): void {
    if (this.#models === undefined) {
      this.#models = {}
      this.entries.push({ key: 'models.served', value: this.#models, line: this.#line(at) })
    }
    this.#models[name] = value
  }

  #line(node: Yaml.Node | null): number {
    return this.#lines.linePos(node?.range?.[0] ?? 0).line
  }

  #problem(node: Yaml.Node | null, text: string): void {
    this.problems.push(`${this.file}:${this.#line(node)}: ${text}`)
  }
}

/** Precedence of the keys for one option: its own key first, then in the order of `mappedKeys`. */
const ranks = new Map([...mappedKeys.keys()].map((key, index) => [key, index + 1]))
const rank = ({ key }: YamlEntry) => ranks.get(key) ?? 0

const ignoredWarning = (entries: readonly YamlEntry[], file: string): string[] => {
  const names = entries
    .filter(({ key, value }) => ignoredKeys.has(key) && !isAlreadySo(key, value))
    .map(({ key }) => key)
  if (names.length === 0) return []
  return [`${file}: settings of the original server that have no effect: ${names.join(', ')}`]
}

/** Reads the settings in a YAML file, which may mix this project's keys and the original's. */
export const readFileLayer = (text: string, file: string): Layer => {
  const { entries, problems: syntax } = new YamlReader(text, file).read()
  const problems = [...syntax]
  const warnings = ignoredWarning(entries, file)
  const settings = new Map<string, Setting & YamlEntry>()

  for (const entry of [...entries].sort((a, b) => rank(a) - rank(b))) {
    const { key, line } = entry
    if (ignoredKeys.has(key)) continue
    const mapped = mappedKeys.get(key)
    const label = `${file}:${line}: ${key}`
    if (mapped?.format !== undefined && !accepts(mapped.format, entry.value)) {
      const got = describeValue(entry.value)
      problems.push(`${label}: expected ${mapped.format.expected}, got ${got}`)
      continue
    }
    const path = mapped?.path ?? key
    const value = mapped?.convert?.(entry.value as never) ?? entry.value
    const first = settings.get(path)
    if (first === undefined) {
      const source = mapped === undefined ? `${file}:${line}` : `${file}:${line} (${key})`
      settings.set(path, { ...entry, path, value, source, label })
    } else if (first.value !== value) {
      warnings.push(`${label}: overridden by ${first.key}, which has another value`)
    }
  }
  const isOriginal = entries.some(({ key }) => mappedKeys.has(key) || ignoredKeys.has(key))
  return { settings: [...settings.values()], problems, warnings, isOriginal }
}
