import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { constants } from 'node:os'
import { delimiter, join } from 'node:path'
import { CllmError, defined, ownEntry } from '@cllm/core'
import spawn from 'cross-spawn'
import { suggestion } from '../config/messages.js'
import { ignoreInterrupts } from '../process/stop-signal.js'
import { type CommandIo, defineCommand } from './command.js'
import { one, type Values, wrong } from './flags.js'
import { servedNames, openServer } from './server/open-server.js'
import { ServerClient } from './server/server-client.js'
import { serverAddress, serverFlags } from './config-flags.js'

/** The server and model for an agent. */
interface AgentTarget {
  /** Without a `/` at its end. */
  readonly url: string
  readonly model: string
  /** Tokens that a conversation can have; undefined: the server does not say. */
  readonly contextSize: number | undefined
  /** What the model takes: `text`, `image`, `audio`; undefined: the server does not say. */
  readonly inputs: readonly string[] | undefined
  /** If the server needs none, any text: agents insist on a key. */
  readonly apiKey: string
}

/** How an agent is pointed at a server. */
interface AgentSetup {
  /** Added to this process's environment. */
  readonly env: Readonly<Record<string, string>>
  /** Arguments before the user's own. Default: none. */
  readonly args?: readonly string[]
}

/** An agent that `cllm launch` starts. */
interface Agent {
  /** Its program. */
  readonly program: string
  /** How to install it. */
  readonly install: string
  readonly setup: (target: AgentTarget) => AgentSetup
}

/** The agents, by the names that `cllm launch` takes. None of them writes a file of the user's. */
export const agents: Readonly<Record<string, Agent>> = {
  claude: {
    program: 'claude',
    install: 'npm install -g @anthropic-ai/claude-code',
    setup: ({ url, model, apiKey }) => ({
      env: {
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_AUTH_TOKEN: apiKey,
        // The user's own key would take precedence over the token.
        ANTHROPIC_API_KEY: '',
        ANTHROPIC_MODEL: model,
        ANTHROPIC_DEFAULT_OPUS_MODEL: model,
        ANTHROPIC_DEFAULT_SONNET_MODEL: model,
        ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
        CLAUDE_CODE_SUBAGENT_MODEL: model,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      },
    }),
  },
  codex: {
    program: 'codex',
    install: 'npm install -g @openai/codex',
    setup: ({ url, model, contextSize, apiKey }) => ({
      env: { CLLM_AGENT_KEY: apiKey },
      // Codex takes these in place of its configuration file's.
      args: [
        'model_provider="cllm"',
        'model_providers.cllm.name="cLLM"',
        `model_providers.cllm.base_url=${JSON.stringify(`${url}/v1`)}`,
        'model_providers.cllm.wire_api="responses"',
        'model_providers.cllm.env_key="CLLM_AGENT_KEY"',
        `model=${JSON.stringify(model)}`,
        // Otherwise it runs into the limit instead of summarizing before.
        ...(contextSize === undefined ? [] : [`model_context_window=${contextSize}`]),
      ].flatMap((setting) => ['-c', setting]),
    }),
  },
  opencode: {
    program: 'opencode',
    install: 'npm install -g opencode-ai',
    setup: ({ url, model, contextSize: context, inputs, apiKey }) => {
      const shape = defined({
        limit: context && { context, output: Math.ceil(context / 4) },
        // Otherwise it shows the model no images.
        modalities: inputs && { input: inputs, output: ['text'] },
      })
      const provider = {
        npm: '@ai-sdk/openai-compatible',
        name: 'cLLM',
        options: { baseURL: `${url}/v1`, apiKey },
        models: { [model]: { name: model, ...shape } },
      }
      const config = {
        model: `cllm/${model}`,
        small_model: `cllm/${model}`,
        provider: { cllm: provider },
      }
      // It goes on top of the user's own configuration, and of the project's.
      return { env: { OPENCODE_CONFIG_CONTENT: JSON.stringify(config) } }
    },
  },
  qwen: {
    program: 'qwen',
    install: 'npm install -g @qwen-code/qwen-code',
    // By arguments: its own settings take precedence over variables.
    setup: ({ url, model, apiKey }) => ({
      env: { OPENAI_API_KEY: apiKey },
      args: ['--auth-type', 'openai', '--openai-base-url', `${url}/v1`, '--model', model],
    }),
  },
  aider: {
    program: 'aider',
    install: 'pipx install aider-chat',
    setup: ({ url, model, apiKey }) => ({
      env: {
        OPENAI_API_BASE: `${url}/v1`,
        OPENAI_API_KEY: apiKey,
        AIDER_MODEL: `openai/${model}`,
        AIDER_WEAK_MODEL: `openai/${model}`,
        AIDER_SHOW_MODEL_WARNINGS: 'false',
      },
    }),
  },
}

/** Flags of a server for agents: their prompts are long, and they send a few requests at once. */
const forAgents = ['--slots', '2', '--ctx-size', '32768', '--body-limit', '33554432'] as const

const names = Object.keys(agents).join(', ')

/** `cllm launch` */
export const run = defineCommand({
  usage: 'launch <agent> [-- <arguments>]',
  doc: `
Starts an installed coding agent against a server: ${names}.
The agent gets the address by environment variables or arguments; its own files stay unchanged. Uses
the running server, or starts one if none serves the model. Arguments after \`--\` go to the agent.`,
  flags: {
    model: one('SPEC', "The model (default: the running server's first)"),
    ...serverFlags,
  },
  async run({ flags, words: [name = ''], rest }, io) {
    const agent = ownEntry(agents, name)
    if (agent === undefined) {
      throw wrong(`unknown agent ${name}${suggestion(name, Object.keys(agents))}: one of ${names}`)
    }
    // Checked before a model is loaded, or downloaded, in vain.
    if (!isInstalled(agent, io)) throw notInstalled(agent)
    const spec = flags.model ?? (await firstModel(flags, io))
    const server = await openServer(spec, flags, forAgents, io)
    try {
      const { client, model } = server
      const { url, apiKey = 'none' } = client.address
      const base = url.href.replace(/\/$/, '')
      const shown = await client.get(`/v1/models/${encodeURIComponent(model)}`)
      const { meta, architecture } = shown as Shown
      const [contextSize, inputs] = [meta?.n_ctx, architecture?.input_modalities]
      const setup = agent.setup({ url: base, model, contextSize, inputs, apiKey })
      return await runAgent(agent, setup, rest, io)
    } finally {
      await server.close()
    }
  },
})

/** A server's facts about a model. */
interface Shown {
  readonly meta?: { readonly n_ctx?: number }
  readonly architecture?: { readonly input_modalities: readonly string[] }
}

/** The running server's first model. */
async function firstModel(flags: Values<typeof serverFlags>, io: CommandIo): Promise<string> {
  const client = new ServerClient(serverAddress(flags, io))
  const [first] = await servedNames(client).catch((error: unknown) => {
    if (CllmError.isInstance(error) && error.code === 'target_unavailable') return []
    throw error
  })
  if (first !== undefined) return first
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

/** Runs an agent in this terminal, and returns its exit code. */
async function runAgent(agent: Agent, setup: AgentSetup, rest: readonly string[], io: CommandIo) {
  const { env, args = [] } = setup
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
