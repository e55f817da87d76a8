import { Check, Copy, type IconNode } from 'lucide'
import { type ButtonHTMLAttributes, type ComponentChild, h } from 'preact'
import { useState } from 'preact/hooks'

/** A picture of Lucide's, in the colour of the text beside it. */
export function Icon({ of }: { readonly of: IconNode }): ComponentChild {
  const shapes = of.map(([tag, attributes], index) => h(tag, { key: index, ...attributes }))
  return h('svg', { class: 'icon', viewBox: '0 0 24 24', 'aria-hidden': 'true' }, shapes)
}

type Given = 'class' | 'type' | 'disabled' | 'popovertarget'

interface IconButtonProps extends Pick<ButtonHTMLAttributes, Given> {
  readonly icon: IconNode
  readonly name: string
  /** The keys that do the same. */
  readonly keys?: string
  readonly onPress?: () => void
  readonly pressed?: boolean
}

/** A button that is a picture; its name is read out, and shown to a pointer. */
export function IconButton({ icon, name, keys, onPress, pressed, ...others }: IconButtonProps) {
  const attributes = {
    type: 'button' as const,
    class: 'bare',
    ...others,
    'aria-label': name,
    'aria-pressed': pressed,
    title: keys === undefined ? name : `${name} (${keys})`,
    onClick: onPress && (() => onPress()),
  }
  return h('button', attributes, h(Icon, { of: icon }))
}

interface CopyButtonProps {
  readonly text: string
  readonly name?: string
}

/** Copies a text. A page without TLS has no clipboard, except on this machine: then there is no button. */
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
