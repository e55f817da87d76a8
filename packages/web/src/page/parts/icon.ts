import { Check, Copy, type IconNode } from 'lucide'
import { type ButtonHTMLAttributes, type ComponentChild, h } from 'preact'
import { useState } from 'preact/hooks'

/** An icon of Lucide, in the colour of the text beside it. */
export function Icon({ of }: { readonly of: IconNode }): ComponentChild {
  const shapes = of.map(([tag, attributes], index) => h(tag, { key: index, ...attributes }))
  return h('svg', { class: 'icon', viewBox: '0 0 24 24', 'aria-hidden': 'true' }, shapes)
}

type Given = 'class' | 'type' | 'disabled' | 'popovertarget'

interface IconButtonProps extends Pick<ButtonHTMLAttributes, Given> {
  readonly icon: IconNode
  readonly name: string
  /** The keyboard shortcut, for the tooltip. */
  readonly keys?: string
  readonly onPress?: () => void
  readonly pressed?: boolean
}

/** A button with an icon; its name is read out and shown as a tooltip. It keeps the focus while it is disabled. */
export function IconButton({ icon, name, keys, onPress, pressed, ...others }: IconButtonProps) {
  const attributes = {
    type: 'button' as const,
    class: 'bare',
    ...others,
    'aria-label': name,
    disabled: undefined,
    'aria-disabled': others.disabled,
    'aria-pressed': pressed,
    title: keys === undefined ? name : `${name} (${keys})`,
    onClick: onPress && (() => others.disabled !== true && onPress()),
  }
  return h('button', attributes, h(Icon, { of: icon }))
}

interface CopyButtonProps {
  readonly text: string
  readonly name?: string
}

/** A button that copies a text. There is none without TLS, where browsers have no clipboard (except for localhost). */
export function CopyButton({ text, name = 'Copy' }: CopyButtonProps): ComponentChild {
  const [copied, setCopied] = useState<string>()
  const clipboard = globalThis.navigator?.clipboard as Clipboard | undefined
  if (clipboard === undefined) return null
  const copy = async (): Promise<void> => {
    await clipboard.writeText(text)
    setCopied(text)
  }
  const isCopied = copied === text
  return h(IconButton, {
    icon: isCopied ? Check : Copy,
    name: isCopied ? 'Copied' : name,
    onPress: () => void copy(),
  })
}
