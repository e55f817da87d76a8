/** A system prompt with a name. */
export interface Preset {
  readonly name: string
  readonly system: string
}

const key = 'cllm-presets'

/** The presets that this browser keeps, by their names. */
export function readPresets(): readonly Preset[] {
  try {
    return JSON.parse(localStorage.getItem(key) ?? '[]') as readonly Preset[]
  } catch {
    return []
  }
}

/** Keeps presets in this browser. */
export const keepPresets = (presets: readonly Preset[]): void =>
  localStorage.setItem(key, JSON.stringify(presets))

/** What a system prompt is called: its preset, or that there is one; undefined: there is none. */
export function systemName(system: string, presets: readonly Preset[]): string | undefined {
  if (system.trim() === '') return undefined
  return presets.find((preset) => preset.system === system)?.name ?? 'System prompt'
}
