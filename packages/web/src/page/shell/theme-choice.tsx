import { Monitor, Moon, Sun } from 'lucide'
import { useEffect, useState } from 'preact/hooks'
import { IconButton } from '../parts/icon.js'

const name = 'cllm-theme'

const themes = [
  ['system', 'As the system', Monitor],
  ['light', 'Light', Sun],
  ['dark', 'Dark', Moon],
] as const

/** Light, dark, or as the system is. */
export function ThemeChoice() {
  const [theme, setTheme] = useState(() => localStorage.getItem(name) ?? 'system')
  useEffect(() => {
    const system = matchMedia('(prefers-color-scheme: dark)')
    const apply = (): void => {
      const own = system.matches ? 'dark' : 'light'
      document.documentElement.dataset['theme'] = theme === 'system' ? own : theme
    }
    apply()
    system.addEventListener('change', apply)
    return () => system.removeEventListener('change', apply)
  }, [theme])
  return (
    <div class="theme" role="group" aria-label="Colours">
      {themes.map(([id, title, icon]) => (
        <IconButton
          key={id}
          icon={icon}
          name={title}
          pressed={theme === id}
          onPress={() => {
            localStorage.setItem(name, id)
            setTheme(id)
          }}
        />
      ))}
    </div>
  )
}
