import { answerLimit } from '../../../answer-limits.js'

const names = [
  ...(['model', 'system', 'temperature', 'topP', 'maxTokens', 'seed', 'effort'] as const),
  // Tools in OpenAI's form, as JSON.
  'tools',
  // `on`: the tools of the server's MCP servers are offered, too.
  'mcp',
  // `required`: the model must call one; `none`: it may not.
  'toolChoice',
  // `on`: each question is asked twice, with these in the place of the others the second time.
  'compare',
  ...(['rivalModel', 'rivalTemperature', 'rivalSystem'] as const),
  // `hidden`: no figures below answers.
  'figures',
] as const

/** What the chat asks with; texts are as they were typed, and an empty one is the server's default. */
export type ChatSettings = Readonly<Record<(typeof names)[number], string>>

const name = 'cllm-chat-settings'

const none = Object.fromEntries(names.map((each) => [each, ''])) as ChatSettings

/** What this browser keeps under a name; `otherwise` where that is nothing, or no JSON. */
export function readKept<T>(name: string, otherwise: T): T {
  try {
    return JSON.parse(localStorage.getItem(name) ?? '') as T
  } catch {
    return otherwise
  }
}

/** Keeps a value in this browser. Throws where there is no room. */
export function keepAs(name: string, value: unknown): void {
  try {
    localStorage.setItem(name, JSON.stringify(value))
  } catch (cause) {
    throw new Error('This browser has no room left for it', { cause })
  }
}

/** The settings that this browser keeps. */
export const readSettings = (): ChatSettings => ({
  ...none,
  ...readKept<Partial<ChatSettings>>(name, {}),
})

/** Keeps settings in this browser. */
export const keepSettings = (settings: ChatSettings): void => keepAs(name, settings)

/** The settings, with the limit for answers of their model where they have none; `models`: the default first. */
function withAnswerLimit(settings: ChatSettings, models: readonly string[]): ChatSettings {
  if (settings.maxTokens.trim() !== '') return settings
  const limit = answerLimit(settings.model || (models[0] ?? ''))
  return limit === undefined ? settings : { ...settings, maxTokens: String(limit) }
}

/** What each question is asked with: once, or twice to compare. */
export function allSettings(settings: ChatSettings, models: readonly string[]) {
  const { compare, rivalModel, rivalTemperature, rivalSystem } = settings
  const rival = {
    ...settings,
    model: rivalModel,
    ...(rivalTemperature === '' ? {} : { temperature: rivalTemperature }),
    ...(rivalSystem === '' ? {} : { system: rivalSystem }),
  }
  const all = compare === 'on' ? [settings, rival] : [settings]
  return all.map((each) => withAnswerLimit(each, models))
}
