import { getDocument, GlobalWorkerOptions } from 'pdfjs-dist'

/** The text of a PDF, page after page. Throws where it is no PDF, or needs a password. */
export async function readPdf(data: ArrayBuffer): Promise<string> {
  const worker = new URL('pdfjs-dist/build/pdf.worker.min.mjs', import.meta.url)
  GlobalWorkerOptions.workerPort ??= new Worker(worker, { type: 'module' })
  const loading = getDocument({ data, isEvalSupported: false, disableFontFace: true })
  try {
    const { numPages, getPage } = await loading.promise.then((pdf) => {
      return { numPages: pdf.numPages, getPage: async (at: number) => await pdf.getPage(at) }
    })
    const pages: string[] = []
    for (let at = 1; at <= numPages; at++) {
      const { items } = await (await getPage(at)).getTextContent()
      const text = items.map((item) => ('str' in item ? item.str + (item.hasEOL ? '\n' : '') : ''))
      pages.push(text.join(''))
    }
    return pages.join('\n\n')
  } finally {
    await loading.destroy()
  }
}
