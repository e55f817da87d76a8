import { Check, Copy } from 'lucide'
import { type ComponentChild, h } from 'preact'
import { useState } from 'preact/hooks'
import { IconButton } from './icon.js'

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
