import { type ComponentChild, h } from 'preact'
import { useState } from 'preact/hooks'

/** Copies a text. A page without TLS has no clipboard, except on this machine: then there is no button. */
export function CopyButton({ text }: { readonly text: string }): ComponentChild {
  const [copied, setCopied] = useState<string>()
  const clipboard = globalThis.navigator?.clipboard as Clipboard | undefined
  if (clipboard === undefined) return null
  const copy = async (): Promise<void> => {
    await clipboard.writeText(text)
    setCopied(text)
  }
  return h(
    'button',
    { type: 'button', class: 'quiet', onClick: () => void copy() },
    copied === text ? 'Copied' : 'Copy',
  )
}
