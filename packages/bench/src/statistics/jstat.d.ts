declare module 'jstat' {
  const jStat: {
    readonly studentt: { inv(probability: number, degreesOfFreedom: number): number }
  }
  export default { jStat }
}
