import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { constants } from 'node:os'
import { delimiter, join } from 'node:path'
import { CllmError } from '@cllm/core'
import spawn from 'cross-spawn'
import { suggestion } from '../../config/messages.js'
import { ignoreInterrupts } from '../../process/stop-signal.js'
import type { CommandIo } from '../command-io.js'
import { defineCommand } from '../flags/define-command.js'
import { one, type Values, wrong } from '../flags/flags.js'
import { servedNames } from '../server/find-server.js'
import { openServer } from '../server/open-server.js'
import { ServerClient } from '../server/server-client.js'
import { serverAddress, serverFlags } from '../server/server-flags.js'
import { type Agent, agents, type AgentSetup } from './agents.js'

/** An agent's prompt is long, and it asks for a few things at once. */
const forAgents = ['--slots', '2', '--ctx-size', '32768', '--body-limit', '33554432'] as const

const names = Object.keys(agents).join(', ')

const flags = {
  model: one('SPEC', "The model (default: the running server's first)"),
  ...serverFlags,
}

/** `cllm launch` */
export const run = defineCommand({
  usage: 'launch <agent> [-- <arguments>]',
  doc: `
Starts an installed coding agent against a server: ${names}. The agent gets
the address by environment variables or arguments; its own files stay unchanged. Uses the running
server, or starts one if none serves the model. Arguments after \`--\` go to the agent.`,
  flags,
  async run({ flags, words: [name = ''], rest }, io) {
    const agent = Object.hasOwn(agents, name) ? agents[name] : undefined
    if (agent === undefined) {
      throw wrong(`unknown agent ${name}${suggestion(name, Object.keys(agents))}: one of ${names}`)
    }
    // Before a model is loaded, or downloaded, in vain.
    if (!isInstalled(agent, io)) throw notInstalled(agent)
    const spec = flags.model ?? (await firstModel(flags, io))
    const server = await openServer(spec, flags, forAgents, io)
    try {
      const { client, model } = server
      const { url, apiKey = 'none' } = client.address
      const base = url.href.replace(/\/$/, '')
      const shown = await client.get(`/v1/models/${encodeURIComponent(model)}`)
      const { meta } = shown as { readonly meta?: { readonly n_ctx?: number } }
      const setup = agent.setup({ url: base, model, contextSize: meta?.n_ctx, apiKey })
      return await runAgent(agent, setup, rest, io)
    } finally {
      await server.close()
    }
  },
})

/** The running server's first model. */
async function firstModel(flags: Values<typeof serverFlags>, io: CommandIo): Promise<string> {
  const served = await servedNames(new ServerClient(serverAddress(flags, io))).catch(
    (error: unknown) => {
      if (CllmError.isInstance(error) && error.code === 'target_unavailable') return []
      throw error
    },
  )
  if (served[0] !== undefined) return served[0]
  throw wrong('no server runs here: name the model for one with --model')
}

/** Whether its program is in the path, as far as that is known: Windows has other names for it. */
function isInstalled({ program }: Agent, { env: { PATH } }: CommandIo): boolean {
  if (PATH === undefined || process.platform === 'win32') return true
  return PATH.split(delimiter).some((folder) => existsSync(join(folder, program)))
}

function notInstalled({ program, install }: Agent, cause?: unknown): CllmError {
  const message = `${program} is not installed: \`${install}\` installs it`
  return new CllmError('invalid_configuration', message, { cause })
}

/** Runs it in this terminal, and returns its exit code. */
async function runAgent(
  agent: Agent,
  { env, args = [] }: AgentSetup,
  rest: readonly string[],
  io: CommandIo,
): Promise<number> {
  // On Windows npm installs programs as scripts, which need a shell and its quoting: cross-spawn knows.
  const child = spawn(agent.program, [...args, ...rest], {
    env: { ...io.env, ...env },
    stdio: 'inherit',
  })
  const hearInterrupts = ignoreInterrupts() // the agent gets Ctrl-C, too, and may go on
  const stop = (): void => void child.kill('SIGTERM')
  io.signal.addEventListener('abort', stop, { once: true })
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
    return code ?? 128 + constants.signals[signal ?? 'SIGTERM']
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause
    throw notInstalled(agent, cause)
  } finally {
    hearInterrupts()
    io.signal.removeEventListener('abort', stop)
  }
}
