import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'

const name = 'cllm-theme'

/** Switches between dark and light; at first it is as the system is. */
export function ThemeButton(): JSX.Element {
  const [theme, setTheme] = useState(
    () =>
      localStorage.getItem(name) ??
      (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'),
  )
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme
  }, [theme])
  const other = theme === 'dark' ? 'light' : 'dark'
  return (
    <button
      class="quiet"
      onClick={() => {
        localStorage.setItem(name, other)
        setTheme(other)
      }}
    >
      {other === 'dark' ? 'Dark' : 'Light'}
    </button>
  )
}
