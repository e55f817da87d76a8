import { Menu } from 'lucide'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { IconButton } from '../parts/icon.js'

/** The id of what is beside the page, which is behind a button where there is no room. */
export const sideId = 'side'

interface BarProps {
  readonly title: string
  /** Whether the page is the one that is shown: then the document has its title. */
  readonly isShown?: boolean
  /** Whether something else in it says where one is. */
  readonly isTitleHidden?: boolean
  readonly children?: ComponentChildren
}

/** The top of a page, which stays in view: its title and what concerns all of it. */
export function Bar({ title, isShown = true, isTitleHidden = false, children }: BarProps) {
  useEffect(() => {
    if (isShown) document.title = `${title} · cLLM`
  }, [title, isShown])
  return (
    <div class="bar">
      <IconButton class="bare menu-button" icon={Menu} name="Menu" popovertarget={sideId} />
      <h1 class={isTitleHidden ? 'sr-only' : undefined}>{title}</h1>
      {children}
    </div>
  )
}

interface PageProps extends Pick<BarProps, 'title' | 'children'> {
  /** A class for what is below the bar. */
  readonly kind?: string
}

/** A page whose bar has nothing but its title. */
export const Page = ({ title, kind = '', children }: PageProps) => (
  <>
    <Bar title={title} />
    <div class={`body ${kind}`}>{children}</div>
  </>
)
