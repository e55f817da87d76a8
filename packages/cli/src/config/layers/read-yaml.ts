import { createRequire } from 'node:module'
import type * as Yaml from 'yaml'
import { describeValue, suggestion } from '../messages.js'
import { ignoredKeys, mappedKeys } from './original-layout.js'
import { options } from '../options/schema.js'
import { modelPaths } from '../resolve-policy.js'

const load = createRequire(import.meta.url)
/** Loaded where there is a file: it has as many modules as this command. */
const yaml = (): typeof Yaml => load('yaml') as typeof Yaml

/** A key of the file with its value. */
export interface YamlEntry {
  /** Such as `backend.llama_cpp.n_batch`. */
  readonly key: string
  readonly value: unknown
  readonly line: number
}

/** The known keys of a YAML file, and the problems with the others. */
export interface YamlReading {
  readonly entries: readonly YamlEntry[]
  readonly problems: readonly string[]
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

class YamlReader {
  readonly entries: YamlEntry[] = []
  readonly problems: string[] = []
  #models: Record<string, unknown> | undefined
  readonly #lines = new (yaml().LineCounter)()
  readonly #document: Yaml.Document.Parsed

  constructor(
    text: string,
    private readonly file: string,
  ) {
    this.#document = yaml().parseDocument(text, { lineCounter: this.#lines, prettyErrors: false })
  }

  read(): YamlReading {
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
      const meant = suggestion(key, namesIn(prefix)) || suggestion(key, keys)
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
      this.entries.push({ key: modelPaths.served, value: this.#models, line: this.#line(at) })
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

/** Reads a YAML file's text. `file` is its name in messages. */
export const readYaml = (text: string, file: string): YamlReading =>
  new YamlReader(text, file).read()
