/** Gives the user a text as a file. */
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/plain' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name.replaceAll(/[^\p{L}\p{N} ._-]/gu, '')
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 1000)
}
