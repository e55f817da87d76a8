/** The server and model for an agent. */
export interface AgentTarget {
  /** Without a `/` at its end. */
  readonly url: string
  readonly model: string
  /** Tokens that a conversation can have; undefined: the server does not say. */
  readonly contextSize: number | undefined
  /** Where the server asks for none, some text: agents insist on a key. */
  readonly apiKey: string
}

/** How an agent is pointed at a server. */
export interface AgentSetup {
  /** Added to this process's environment. */
  readonly env: Readonly<Record<string, string>>
  /** Arguments before the user's own. Default: none. */
  readonly args?: readonly string[]
}

/** An agent that `cllm launch` starts. */
export interface Agent {
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
        // An own key of the user's would go before the token.
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
        // else it runs into the end instead of summing up before
        ...(contextSize === undefined ? [] : [`model_context_window=${contextSize}`]),
      ].flatMap((setting) => ['-c', setting]),
    }),
  },
  opencode: {
    program: 'opencode',
    install: 'npm install -g opencode-ai',
    setup: ({ url, model, contextSize: context, apiKey }) => {
      const limit =
        context === undefined ? {} : { limit: { context, output: Math.ceil(context / 4) } }
      const provider = {
        npm: '@ai-sdk/openai-compatible',
        name: 'cLLM',
        options: { baseURL: `${url}/v1`, apiKey },
        models: { [model]: { name: model, ...limit } },
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
