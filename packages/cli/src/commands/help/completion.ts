import { readFileSync } from 'node:fs'
import { ownEntry } from '@cllm/core'
import { catalog } from '../../models/catalog/catalog.js'
import { type CommandIo, defineCommand } from '../command.js'
import { wrong } from '../flags.js'
import { agents } from '../launch.js'
import { commands } from './command-table.js'

/** The words that can follow each command, by its name; '' has the commands themselves. */
type Words = ReadonlyMap<string, readonly string[]>

/** `cllm completion` */
export const run = defineCommand({
  usage: 'completion <shell>',
  doc: `
Prints a script that completes commands, flags and models in bash, zsh or fish. For this session:

  source <(cllm completion bash)
  source <(cllm completion zsh)
  cllm completion fish | source`,
  flags: {},
  async run({ words: [shell = ''] }, io) {
    const script = ownEntry(scripts, shell)
    if (script === undefined) throw wrong(`expected bash, zsh or fish, got ${shell}`)
    io.stdout.write(script(await wordsOf(io)))
  },
})

const models = catalog.map(({ name }) => name)
const takesModel: ReadonlySet<string> = new Set(['run', 'show', 'fit', 'rm', 'pull', 'stop'])

async function wordsOf(io: CommandIo): Promise<Words> {
  const words = new Map<string, readonly string[]>()
  const names = [...commands.keys()]
  words.set('', [...new Set(names.map((name) => name.split(' ')[0]!))])
  for (const name of names) {
    const [first = '', second] = name.split(' ')
    if (second !== undefined) words.set(first, [...(words.get(first) ?? []), second])
  }
  for (const name of names) {
    const arguments_ = takesModel.has(name) ? models : name === 'launch' ? Object.keys(agents) : []
    const own = name === 'completion' ? Object.keys(scripts) : arguments_
    words.set(name, [...(words.get(name) ?? []), ...own, ...(await flagsOf(name, io))])
  }
  return words
}

/** A command's flags. Its whole help lists all of them, also those of the configuration. */
async function flagsOf(name: string, { env, signal }: CommandIo): Promise<readonly string[]> {
  let text = ''
  const stdout = { write: (part: string) => void (text += part) }
  const command = commands.get(name)!
  if (command.help === undefined) {
    const run = await command.load()
    await run(['--help'], { stdout, stderr: stdout, env, signal })
  } else text = await command.help(true)
  return [...new Set([...text.matchAll(/(?<=^ {2}|^ {2}--[\w-]+, )--[\w-]+/gm)].map(String))]
}

function bash(words: Words): string {
  const groups = [...words.keys()]
    .filter((name) => name.includes(' '))
    .map((name) => `    '${name}') if ((COMP_CWORD > 2)); then command='${name}'; fi ;;`)
  const cases = [...words].map(([name, own]) => `    '${name}') words='${own.join(' ')}' ;;`)
  const file = new URL('../../../data/completion.bash', import.meta.url)
  return readFileSync(file, 'utf8')
    .replace(/ *# GROUPS/, () => groups.join('\n'))
    .replace(/ *# CASES/, () => cases.join('\n'))
}

const zsh = (words: Words): string =>
  `#compdef cllm\nautoload -U +X bashcompinit && bashcompinit\n${bash(words)}`

function fish(words: Words): string {
  const lines = ['# fish completion of cllm']
  for (const [name, own] of words) {
    const seen = name.split(' ').map((word) => `__fish_seen_subcommand_from ${word}`)
    const condition = name === '' ? '__fish_use_subcommand' : seen.join('; and ')
    const plain = own.filter((word) => !word.startsWith('--'))
    if (plain.length > 0) {
      lines.push(`complete -c cllm -f -n '${condition}' -a '${plain.join(' ')}'`)
    }
    for (const flag of own.filter((word) => word.startsWith('--'))) {
      lines.push(`complete -c cllm -n '${condition}' -l ${flag.slice(2)}`)
    }
  }
  return `${lines.join('\n')}\n`
}

const scripts: Readonly<Record<string, (words: Words) => string>> = { bash, zsh, fish }
