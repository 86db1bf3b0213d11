/* DPDK's inline functions behind capsule's names, arguments that DPDK has renamed, and no KNI. */
#include <string.h>
#include "bindings.h"

int capsule_eal_init(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--master-lcore") == 0)
            argv[i] = "--main-lcore";
        else if (strcmp(argv[i], "--pci-whitelist") == 0)
            argv[i] = "--allow";
    }
    return rte_eal_init(argc, argv);
}

int _rte_errno(void) { return rte_errno; }
struct rte_mbuf *_rte_pktmbuf_alloc(struct rte_mempool *pool) { return rte_pktmbuf_alloc(pool); }
void _rte_pktmbuf_free(struct rte_mbuf *mbuf) { rte_pktmbuf_free(mbuf); }
int _rte_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned count) {
    return rte_pktmbuf_alloc_bulk(pool, mbufs, count);
}
void _rte_mempool_put_bulk(struct rte_mempool *pool, void *const *objects, unsigned count) {
    rte_mempool_put_bulk(pool, objects, count);
}
uint16_t _rte_eth_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count) {
    return rte_eth_rx_burst(port, queue, mbufs, count);
}
uint16_t _rte_eth_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count) {
    return rte_eth_tx_burst(port, queue, mbufs, count);
}

int rte_kni_init(unsigned most) { (void)most; return -1; }
void rte_kni_close(void) {}
struct rte_kni *rte_kni_alloc(struct rte_mempool *pool, const struct rte_kni_conf *conf, struct rte_kni_ops *ops) {
    (void)pool; (void)conf; (void)ops; return NULL;
}
int rte_kni_release(struct rte_kni *kni) { (void)kni; return -1; }
int rte_kni_handle_request(struct rte_kni *kni) { (void)kni; return -1; }
unsigned rte_kni_rx_burst(struct rte_kni *kni, struct rte_mbuf **mbufs, unsigned count) {
    (void)kni; (void)mbufs; (void)count; return 0;
}
unsigned rte_kni_tx_burst(struct rte_kni *kni, struct rte_mbuf **mbufs, unsigned count) {
    (void)kni; (void)mbufs; (void)count; return 0;
}
const char *rte_kni_get_name(const struct rte_kni *kni) { (void)kni; return ""; }
