import { createRequire } from 'node:module'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, isAbsolute, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { orInvalid } from '../../config/messages.js'
import { defineCommand } from '../command.js'
import { wrong } from '../flags.js'

const kinds = ['order', 'batching', 'router', 'protocol']
const templates = new URL('../../../data/plugin/', import.meta.url)
/** What the templates import; the editor finds their types where this program has them. */
const packages = 'core host http-koa http-koa/protocol scheduler simulation testing'

/** `cllm plugin new` */
export const run = defineCommand({
  usage: 'plugin new <kind> <folder>',
  doc: `
Writes a plug-in that works into a new folder, with a test and types for the editor. It has the
folder's name; the kind is ${kinds.join(', ')}.`,
  flags: {},
  async run({ words: [kind = '', folder = ''] }, io) {
    const name = basename(folder)
    if (!kinds.includes(kind)) throw wrong(`kind: expected ${kinds.join(', ')}, got "${kind}"`)
    if (!/^[a-z][a-z\d]*(-[a-z\d]+)*$/.test(name)) {
      throw wrong(`folder: expected small letters and dashes as its name, got "${name}"`)
    }
    const files = {
      [`${name}.js`]: named(`${kind}.js`, name),
      [`${name}.test.js`]: named(`${kind}.test.js`, name),
      'package.json': json({ name, private: true, type: 'module' }),
      'jsconfig.json': json(editorSettings()),
    }
    const write = () => {
      mkdirSync(folder)
      for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
    }
    orInvalid(write, 'folder')
    const file = isAbsolute(folder) ? join(folder, `${name}.js`) : `./${join(folder, `${name}.js`)}`
    io.stdout.write(
      `${file}: a plug-in that works (${kind})\n` +
        `  test it   cllm plugin test ${file}\n` +
        `  use it    cllm ${uses[kind]!.replaceAll('NAME', name)} --plugin ${file}\n`,
    )
  },
})

const uses: Readonly<Record<string, string>> = {
  // Answers differ in length, as orders would look alike otherwise.
  order: 'simulate --output-len uniform:16-512 --policy chunked+NAME --policy chunked+fcfs',
  batching: 'simulate --policy NAME+fcfs --policy chunked+fcfs',
  router: 'simulate --machines 4 --router NAME',
  protocol: 'serve',
}

function named(template: string, name: string): string {
  const constant = name.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
  const text = readFileSync(new URL(template, templates), 'utf8')
  return text.replaceAll('my-plugin', name).replaceAll('myPlugin', constant)
}

const json = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`

/** The file with a module's types: beside the module, or beside the folder of its bundle. */
const typesOf = (file: string): string =>
  file.replace(/(?:([\\/])bundle[\\/])?(\w+)\.(c?)js$/, '$1$2.d.$3ts')

/** Settings of an editor that looks for types where this program has its packages. */
function editorSettings(): object {
  const names = packages.split(' ').map((name) => `@cllm/${name}`)
  const files = names.map((name) => [name, fileURLToPath(import.meta.resolve(name))] as const)
  // zod is a dependency of the scheduler's, not of this package.
  const zod = createRequire(import.meta.resolve('@cllm/scheduler')).resolve('zod')
  const paths = Object.fromEntries(
    [...files, ['zod', zod]].map(([name, file]) => [name, [typesOf(file)]]),
  )
  const options = { strict: true, module: 'nodenext', target: 'es2023', noEmit: true, types: [] }
  return { compilerOptions: { ...options, allowJs: true, paths }, exclude: ['*.test.js'] }
}
