import { answerLimit } from '../../../answers.js'

const names = [
  ...(['model', 'system', 'temperature', 'topP', 'maxTokens', 'seed', 'effort'] as const),
  // Tools in OpenAI's form, as JSON.
  'tools',
  // `on`: the tools of the server's MCP servers are offered, too.
  'mcp',
  // `required`: the model must call one; `none`: it may not.
  'toolChoice',
  // `on`: each question is asked twice, the second time with the following settings instead.
  'compare',
  ...(['rivalModel', 'rivalTemperature', 'rivalSystem'] as const),
  // `hidden`: no figures below answers.
  'figures',
] as const

/** The settings of the chat's requests, as typed texts; an empty one is the server's default. */
export type ChatSettings = Readonly<Record<(typeof names)[number], string>>

const name = 'cllm-chat-settings'

const none = Object.fromEntries(names.map((each) => [each, ''])) as ChatSettings

/** The value that this browser stores under a name; `otherwise` if there is none, or it is no JSON. */
export function readKept<T>(name: string, otherwise: T): T {
  try {
    return JSON.parse(localStorage.getItem(name) ?? '') as T
  } catch {
    return otherwise
  }
}

/** Stores a value in this browser. Throws if there is no room. */
export function keepAs(name: string, value: unknown): void {
  try {
    localStorage.setItem(name, JSON.stringify(value))
  } catch (cause) {
    throw new Error('This browser has no room left for it', { cause })
  }
}

/** The settings that this browser stores. */
export const readSettings = (): ChatSettings => ({
  ...none,
  ...readKept<Partial<ChatSettings>>(name, {}),
})

/** Stores the settings in this browser. */
export const keepSettings = (settings: ChatSettings): void => keepAs(name, settings)

/** The settings with their model's answer limit, if they have none. The first of `models` is the default. */
function withAnswerLimit(settings: ChatSettings, models: readonly string[]): ChatSettings {
  if (settings.maxTokens.trim() !== '') return settings
  const limit = answerLimit(settings.model || (models[0] ?? ''))
  return limit === undefined ? settings : { ...settings, maxTokens: String(limit) }
}

/** The settings of each question: one set, or two to compare. */
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
