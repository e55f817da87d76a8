/** The address of a link that may be followed, or undefined: no scripts, no data, no files. */
export function safeLink(href: string): string | undefined {
  // Browsers leave such characters out of a scheme: "java\nscript:" is one.
  const plain = href.replaceAll(/[\s\p{Cc}]/gu, '')
  if (plain.startsWith('#')) return undefined
  try {
    const { protocol, href: address } = new URL(plain)
    return ['http:', 'https:', 'mailto:'].includes(protocol) ? address : undefined
  } catch {
    return undefined
  }
}
