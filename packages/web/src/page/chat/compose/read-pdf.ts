import { getDocument, GlobalWorkerOptions } from 'pdfjs-dist'

/** The text of a PDF, page after page. Throws if the data is no PDF, or needs a password. */
export async function readPdf(data: ArrayBuffer): Promise<string> {
  const worker = new URL('pdfjs-dist/build/pdf.worker.min.mjs', import.meta.url)
  GlobalWorkerOptions.workerPort ??= new Worker(worker, { type: 'module' })
  const loading = getDocument({ data, isEvalSupported: false, disableFontFace: true })
  try {
    const pdf = await loading.promise
    const pages: string[] = []
    for (let at = 1; at <= pdf.numPages; at++) {
      const { items } = await (await pdf.getPage(at)).getTextContent()
      const text = items.map((item) => ('str' in item ? item.str + (item.hasEOL ? '\n' : '') : ''))
      pages.push(text.join(''))
    }
    return pages.join('\n\n')
  } finally {
    await loading.destroy()
  }
}
