/** Downloads a text as a file. */
export const download = (name: string, text: string): void =>
  downloadBlob(name, new Blob([text], { type: 'text/plain' }))

/** Downloads data as a file. */
export function downloadBlob(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob)
  const link = document.createElement('a')
  link.href = url
  link.download = name.replaceAll(/[^\p{L}\p{N} ._-]/gu, '')
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 1000)
}
